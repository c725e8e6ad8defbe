package dev.headwater.join;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.api.java.UDF0;

/** The id of the current micro-batch. */
public final class BatchNumber implements UDF0<Long> {
  private static final long serialVersionUID = 1L;
  private static final String PROPERTY = "streaming.sql.batchId";

  @Override
  public Long call() {
    return ofTask(TaskContext.get());
  }

  static long ofTask(TaskContext task) {
    return Long.parseLong(task.getLocalProperty(PROPERTY));
  }
}
