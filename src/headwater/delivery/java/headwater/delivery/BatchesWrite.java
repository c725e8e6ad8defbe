package headwater.delivery;

import java.util.function.Consumer;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** The micro-batches of a query. All is done by the tasks: when they are, the batch is. */
final class BatchesWrite implements StreamingWrite {
  private final SinkOptions options;
  private final Consumer<Written> tell;

  BatchesWrite(SinkOptions options, Consumer<Written> tell) {
    this.options = options;
    this.tell = tell;
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    return new WriterFactory(options, info.numPartitions());
  }

  @Override
  public void commit(long batch, WriterCommitMessage[] messages) {
    Written all = new Written();
    for (WriterCommitMessage one : messages) {
      if (one instanceof Written written) {
        all.addAll(written);
      }
    }
    tell.accept(all);
  }

  @Override
  public void abort(long batch, WriterCommitMessage[] messages) {}

  private record WriterFactory(SinkOptions options, int tasks)
      implements StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int task, long taskId, long batch) {
      int attempt = TaskContext.get().attemptNumber() + TaskContext.get().stageAttemptNumber();
      TaskOfBatch place = new TaskOfBatch(batch, task, tasks, attempt);
      return new TaskWriter(Delivery.of(options, place), options, batch);
    }
  }
}
