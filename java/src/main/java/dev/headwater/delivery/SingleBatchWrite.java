package dev.headwater.delivery;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** The rows of a batch DataFrame, as one batch with an id from the options. */
final class SingleBatchWrite implements BatchWrite {
  private final SinkOptions options;

  SingleBatchWrite(SinkOptions options) {
    this.options = options;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    return new WriterFactory(options, info.numPartitions());
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {}

  @Override
  public void abort(WriterCommitMessage[] messages) {}

  private record WriterFactory(SinkOptions options, int tasks) implements DataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int task, long taskId) {
      int attempt = TaskContext.get().attemptNumber() + TaskContext.get().stageAttemptNumber();
      BatchTask batchTask = new BatchTask(options.batch(), task, tasks, attempt);
      return new TaskWriter(Delivery.of(options, batchTask), options, options.batch());
    }
  }
}
