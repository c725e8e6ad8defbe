package dev.headwater.rowlineage;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedSet;
import java.util.TreeSet;
import org.apache.spark.unsafe.types.UTF8String;

/** The parents of a group of rows. The order in which they are added does not matter. */
final class ParentSet {
  /** A partition of a topic. */
  record Partition(UTF8String topic, int number) {
    /** The text before the offset in an address. */
    String prefix() {
      return topic + "/" + number + "@";
    }
  }

  /** The parents in one partition: offsets, and ranges that contain some more. */
  record Parents(OffsetSet offsets, OffsetRanges ranges) {
    Parents() {
      this(new OffsetSet(), new OffsetRanges());
    }
  }

  private final Map<Partition, Parents> byPartition = new HashMap<>();
  private final SortedSet<String> others = new TreeSet<>();
  // Consecutive rows of a group mostly come from one partition.
  private Partition lastPartition;
  private Parents last;

  /** Adds a record. The topic may be a view on memory that Spark reuses. */
  void add(UTF8String topic, int partition, long offset) {
    in(topic, partition).offsets().add(offset);
  }

  /** Adds the parents in a text such as `visits/0@17,visits/0@18`; see {@link ParentText}. */
  void add(UTF8String text) {
    ParentText.parse(text.toString(), this);
  }

  /** Adds a text that is not the address of a record, such as `?`: there are unknown parents. */
  void addOther(String text) {
    others.add(text);
  }

  void add(ParentSet more) {
    more.byPartition.forEach(
        (partition, added) -> {
          Parents parents = in(partition.topic(), partition.number());
          parents.offsets().add(added.offsets());
          parents.ranges().add(added.ranges());
        });
    others.addAll(more.others);
  }

  Parents in(UTF8String topic, int partition) {
    if (last == null
        || lastPartition.number() != partition
        || !lastPartition.topic().equals(topic)) {
      Partition key = new Partition(topic, partition);
      last = byPartition.get(key);
      if (last == null) {
        key = new Partition(topic.copy(), partition);
        last = new Parents();
        byPartition.put(key, last);
        lastPartition = key;
      } else {
        lastPartition = new Partition(topic.copy(), partition);
      }
    }
    return last;
  }

  Parents in(Partition partition) {
    return byPartition.get(partition);
  }

  /** In the order of their texts. */
  List<Partition> partitions() {
    List<Partition> sorted = new ArrayList<>(byPartition.keySet());
    sorted.sort((one, two) -> one.prefix().compareTo(two.prefix()));
    return sorted;
  }

  SortedSet<String> others() {
    return others;
  }
}
