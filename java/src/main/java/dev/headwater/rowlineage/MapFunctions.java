package dev.headwater.rowlineage;

import java.io.Serializable;
import java.lang.invoke.SerializedLambda;
import java.lang.reflect.Method;
import org.apache.spark.api.java.function.MapFunction;
import scala.Function1;
import scala.runtime.AbstractFunction1;

/** Functions of typed Datasets. */
final class MapFunctions {
  private MapFunctions() {}

  /** A function of `Dataset.map`, which may be of Java or Scala. */
  @SuppressWarnings("unchecked")
  static Function1<Object, Object> scala(Object function) {
    return function instanceof MapFunction<?, ?> ofJava
        ? new OfJava((MapFunction<Object, Object>) ofJava)
        : (Function1<Object, Object>) function;
  }

  /**
   * Whether a function of `mapPartitions` is the one by which Spark implements `Dataset.flatMap`:
   * it takes the next row when all rows of the last one were taken from it.
   */
  static boolean isFlatMap(Object function) {
    try {
      Method replace = function.getClass().getDeclaredMethod("writeReplace");
      replace.setAccessible(true);
      return replace.invoke(function) instanceof SerializedLambda lambda
          && lambda.getImplClass().startsWith("org/apache/spark/sql/")
          && lambda.getImplMethodName().startsWith("$anonfun$flatMap");
    } catch (ReflectiveOperationException | RuntimeException other) {
      return false;
    }
  }

  private static final class OfJava extends AbstractFunction1<Object, Object>
      implements Serializable {
    private static final long serialVersionUID = 1;

    private final MapFunction<Object, Object> function;

    OfJava(MapFunction<Object, Object> function) {
      this.function = function;
    }

    @Override
    public Object apply(Object value) {
      try {
        return function.call(value);
      } catch (RuntimeException error) {
        throw error;
      } catch (Exception error) {
        throw new IllegalStateException(error);
      }
    }
  }
}
