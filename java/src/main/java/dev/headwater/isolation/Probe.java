package dev.headwater.isolation;

import static dev.headwater.compat.CollectionConverters.asJava;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.Dependency;
import org.apache.spark.OneToOneDependency;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.python.PythonException;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import org.apache.spark.sql.kafka010.KafkaSourceRDD;
import org.apache.spark.sql.kafka010.KafkaSourceRDDPartition;

/**
 * Computes rows without writing them, to find out for which records the code of a job raises an
 * error. Not as a write of Spark SQL: that would be reported as a write of the application.
 */
public final class Probe {
  private static final int MAX_CAUSES = 20;

  private Probe() {}

  /**
   * The tasks that fail: topic, partition, first offset, end offset, then the error as of {@link
   * #failure}. Null if a task does not have exactly the rows of one range of offsets.
   */
  public static List<String[]> failedTasks(Dataset<Row> rows) {
    if (rows.queryExecution().executedPlan() instanceof AdaptiveSparkPlanExec) {
      // It has shuffles, which would be run by the next line.
      return null;
    }
    JavaRDD<InternalRow> tasks = rows.queryExecution().toRdd().toJavaRDD();
    List<KafkaOffsetRange> ranges = ranges(tasks.rdd());
    if (ranges == null) {
      return null;
    }
    List<String[]> failed = new ArrayList<>();
    for (String[] each : tasks.mapPartitionsWithIndex(Probe::failureOfTask, true).collect()) {
      KafkaOffsetRange range = ranges.get(Integer.parseInt(each[0]));
      failed.add(
          new String[] {
            range.topicPartition().topic(),
            Integer.toString(range.topicPartition().partition()),
            Long.toString(range.fromOffset()),
            Long.toString(range.untilOffset()),
            each[1],
            each[2],
            each[3]
          });
    }
    return failed;
  }

  /** The offsets of each task, if there is nothing but steps of single tasks after the source. */
  private static List<KafkaOffsetRange> ranges(RDD<?> tasks) {
    RDD<?> rdd = tasks;
    while (!(rdd instanceof KafkaSourceRDD)) {
      List<Dependency<?>> before = asJava(rdd.dependencies());
      if (before.size() != 1 || !(before.get(0) instanceof OneToOneDependency<?> single)) {
        return null;
      }
      rdd = single.rdd();
    }
    List<KafkaOffsetRange> ranges = new ArrayList<>();
    for (Partition each : rdd.partitions()) {
      ranges.add(((KafkaSourceRDDPartition) each).offsetRange());
    }
    return ranges;
  }

  private static Iterator<String[]> failureOfTask(int task, Iterator<InternalRow> rows) {
    try {
      drain(rows);
      return List.<String[]>of().iterator();
    } catch (RuntimeException failed) {
      if (TaskContext.get().isInterrupted()) {
        throw failed;
      }
      String[] error = describe(failed);
      String[] result = {Integer.toString(task), error[0], error[1], error[2]};
      return List.<String[]>of(result).iterator();
    }
  }

  /**
   * Null if all rows could be computed; otherwise the class and the message of the error, and the
   * complete text.
   */
  public static String[] failure(Dataset<Row> rows) {
    try {
      rows.queryExecution().toRdd().toJavaRDD().foreachPartition(Probe::drain);
      return null;
    } catch (Exception failed) {
      return describe(failed);
    }
  }

  private static void drain(Iterator<InternalRow> rows) {
    while (rows.hasNext()) {
      rows.next();
    }
  }

  private static String[] describe(Exception failed) {
    Throwable cause = causeOf(failed);
    StringWriter text = new StringWriter();
    failed.printStackTrace(new PrintWriter(text));
    return new String[] {cause.getClass().getName(), cause.getMessage(), text.toString()};
  }

  /** The error of the code itself: that of Python, or else the innermost one with a message. */
  private static Throwable causeOf(Throwable failed) {
    Throwable found = failed;
    Throwable each = failed;
    for (int depth = 0; each != null && depth < MAX_CAUSES; depth++) {
      if (each instanceof PythonException) {
        return each;
      }
      if (each.getMessage() != null) {
        found = each;
      }
      each = each.getCause();
    }
    return found;
  }
}
