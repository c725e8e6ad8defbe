package dev.headwater.delivery;

import java.util.function.Consumer;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** The micro-batches of a query. The tasks do all the work; a commit only adds up offsets. */
final class MicroBatchWrite implements StreamingWrite {
  private final SinkOptions options;
  private final Consumer<WrittenOffsets> onCommit;

  MicroBatchWrite(SinkOptions options, Consumer<WrittenOffsets> onCommit) {
    this.options = options;
    this.onCommit = onCommit;
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    return new WriterFactory(options, info.numPartitions());
  }

  @Override
  public void commit(long batch, WriterCommitMessage[] messages) {
    WrittenOffsets all = new WrittenOffsets();
    for (WriterCommitMessage message : messages) {
      if (message instanceof WrittenOffsets written) {
        all.addAll(written);
      }
    }
    onCommit.accept(all);
  }

  @Override
  public void abort(long batch, WriterCommitMessage[] messages) {}

  private record WriterFactory(SinkOptions options, int tasks)
      implements StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int task, long taskId, long batch) {
      int attempt = TaskContext.get().attemptNumber() + TaskContext.get().stageAttemptNumber();
      BatchTask batchTask = new BatchTask(batch, task, tasks, attempt);
      return new TaskWriter(Delivery.of(options, batchTask), options, batch);
    }
  }
}
