package dev.headwater.delivery;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.function.Consumer;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** The micro-batches of a query. The tasks do the work; a commit adds up offsets. */
final class MicroBatchWrite implements StreamingWrite {
  private final SinkOptions options;
  // Null for a delivery that needs nothing of the driver.
  private final ExactlyOnce exactlyOnce;
  private final Consumer<WrittenOffsets> onCommit;

  MicroBatchWrite(SinkOptions options, ExactlyOnce exactlyOnce, Consumer<WrittenOffsets> onCommit) {
    this.options = options;
    this.exactlyOnce = exactlyOnce;
    this.onCommit = onCommit;
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    try {
      TaskGuard guard = exactlyOnce == null ? null : exactlyOnce.before(options);
      return new WriterFactory(options, info.numPartitions(), guard);
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  @Override
  public void commit(long batch, WriterCommitMessage[] messages) {
    WrittenOffsets all = new WrittenOffsets();
    for (WriterCommitMessage message : messages) {
      if (message instanceof WrittenOffsets written) {
        all.addAll(written);
      }
    }
    if (exactlyOnce != null) {
      try {
        exactlyOnce.after(batch, all);
      } catch (IOException failed) {
        throw new UncheckedIOException(failed);
      }
    }
    onCommit.accept(all);
  }

  @Override
  public void abort(long batch, WriterCommitMessage[] messages) {}

  private record WriterFactory(SinkOptions options, int tasks, TaskGuard guard)
      implements StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int task, long taskId, long batch) {
      if (guard != null) {
        try {
          guard.begin(task, batch);
        } catch (IOException failed) {
          throw new UncheckedIOException(failed);
        }
      }
      int attempt = TaskContext.get().attemptNumber() + TaskContext.get().stageAttemptNumber();
      BatchTask batchTask = new BatchTask(batch, task, tasks, attempt);
      return new TaskWriter(Delivery.of(options, batchTask), options, batch, guard);
    }
  }
}
