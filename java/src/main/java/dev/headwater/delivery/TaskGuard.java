package dev.headwater.delivery;

import java.io.IOException;
import java.io.Serializable;
import org.apache.spark.TaskContext;

/**
 * What the tasks of a batch need for exactly-once delivery.
 *
 * @param written records that are left out, or null if the batch was not interrupted
 * @param fence null if no other process can run the query
 */
record TaskGuard(WrittenRecords written, RunFence fence) implements Serializable {
  /** Before a task writes. */
  void begin(int task, long batch) throws IOException {
    TaskContext context = TaskContext.get();
    if (context.attemptNumber() > 0 || context.stageAttemptNumber() > 0) {
      // The first attempt may still write: an executor that is lost is not always dead.
      throw new ExactlyOnceException(
          "task "
              + task
              + " of batch "
              + batch
              + " is a retry, which can't determine what the first attempt has written; the "
              + "next start of the application completes the batch. A cluster that loses "
              + "executors often needs delivery=transactional");
    }
    if (fence != null) {
      fence.check();
    }
  }
}
