package dev.headwater.compat;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.ListIterator;
import java.util.Map;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.$colon$colon;
import scala.collection.immutable.Nil$;

/**
 * Copies collections of Scala to those of Java and back.
 *
 * <p>Scala's own converters have other names in 2.12 and 2.13. `Seq` of Spark's signatures is
 * `scala.collection.Seq` in 2.12 and `scala.collection.immutable.Seq` in 2.13: sources that are
 * compiled with both receive the former, and pass on Scala's `List`, which is both.
 */
public final class CollectionConverters {
  private CollectionConverters() {}

  public static <T> List<T> asJava(scala.collection.Iterable<? extends T> all) {
    return asJava(all.iterator());
  }

  public static <T> List<T> asJava(Iterator<? extends T> all) {
    List<T> list = new ArrayList<>();
    while (all.hasNext()) {
      list.add(all.next());
    }
    return list;
  }

  public static <K, V> Map<K, V> asJava(scala.collection.Map<K, V> all) {
    Map<K, V> map = new LinkedHashMap<>();
    for (Tuple2<K, V> each : CollectionConverters.<Tuple2<K, V>>asJava(all.iterator())) {
      map.put(each._1(), each._2());
    }
    return map;
  }

  @SuppressWarnings("unchecked")
  public static <T> scala.collection.immutable.List<T> asScala(List<? extends T> all) {
    var list =
        (scala.collection.immutable.List<T>) (scala.collection.immutable.List<?>) Nil$.MODULE$;
    ListIterator<? extends T> each = all.listIterator(all.size());
    while (each.hasPrevious()) {
      list = new $colon$colon<>(each.previous(), list);
    }
    return list;
  }
}
