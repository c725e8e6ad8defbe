package dev.headwater.delivery;

import java.io.IOException;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.unsafe.types.UTF8String;

/** Writes the rows of one task as records. The order of columns is that of `delivery/sink.py`. */
final class TaskWriter implements DataWriter<InternalRow> {
  private static final int TOPIC = 0;
  private static final int KEY = 1;
  private static final int VALUE = 2;
  private static final int LINEAGE = 3;
  private static final int ORDINAL = 4;
  private static final int ERROR = 5;
  private static final int PARTITION = 6;
  private static final int HEADERS = 7;

  private final Delivery delivery;
  private final LineageHeaders headers;
  private final UnlistedParents unlistedParents;
  private final SizeLimit sizeLimit;
  private final String onlyTopic;
  private final boolean listsAll;
  private final String queryId;
  // Both null unless the delivery needs them.
  private final WrittenRecords.LeftOut leftOut;
  private final RunFence fence;
  private boolean closed;
  private UTF8String lastTopic;
  private String lastTopicName;
  private long withoutParents;

  TaskWriter(Delivery delivery, SinkOptions options, long batch) {
    this(delivery, options, batch, null);
  }

  TaskWriter(Delivery delivery, SinkOptions options, long batch, TaskGuard guard) {
    this.delivery = delivery;
    this.headers = new LineageHeaders(options, batch);
    this.sizeLimit = new SizeLimit(options);
    this.onlyTopic = options.topic();
    this.listsAll = options.parentsSuffix() != null;
    this.queryId = options.queryId();
    WrittenRecords written = guard == null ? null : guard.written();
    this.leftOut = written == null ? null : written.new LeftOut();
    this.fence = guard == null ? null : guard.fence();
    this.unlistedParents = new UnlistedParents(delivery, headers, options, fence);
    OpenWriters.add(queryId);
  }

  @Override
  public void write(InternalRow row) throws IOException {
    Parents parents;
    if (row.isNullAt(LINEAGE)) {
      parents = Parents.NONE;
      withoutParents++;
    } else {
      parents = new Parents(row.getStruct(LINEAGE, Parents.FIELDS));
    }
    long ordinal = row.isNullAt(ORDINAL) ? 0 : row.getLong(ORDINAL);
    ProducerRecord<byte[], byte[]> record =
        new ProducerRecord<>(
            onlyTopic == null ? topic(row.getUTF8String(TOPIC)) : onlyTopic,
            row.isNullAt(PARTITION) ? null : row.getInt(PARTITION),
            row.isNullAt(KEY) ? null : row.getBinary(KEY),
            row.isNullAt(VALUE) ? null : row.getBinary(VALUE),
            row.isNullAt(ERROR)
                ? headers.of(parents, ordinal, row.isNullAt(HEADERS) ? null : row.getArray(HEADERS))
                : headers.ofFailed(parents, ordinal, row.getStruct(ERROR, 2)));
    UTF8String unlisted = listsAll ? parents.rest() : null;
    int reserved = unlisted == null ? 0 : LineageHeaders.MAX_LINEAGE_BYTES;
    record = sizeLimit.fit(record, !row.isNullAt(ERROR), reserved);
    if (leftOut != null && leftOut.add(record)) {
      return;
    }
    if (fence != null) {
      fence.check();
    }
    if (unlisted != null) {
      String id = headers.recordId(parents.allParentsHash(), ordinal);
      unlistedParents.send(record, unlisted.toString(), id);
    } else if (unlistedParents.isEmpty()) {
      delivery.send(record);
    } else {
      unlistedParents.send(record, null, null);
    }
  }

  @Override
  public WriterCommitMessage commit() throws IOException {
    if (fence != null) {
      fence.check();
    }
    unlistedParents.sendAll();
    WrittenOffsets written = delivery.finish();
    if (leftOut != null) {
      written.addLeftOut(leftOut.entries());
    }
    written.addWithoutParents(withoutParents);
    written.addDroppedHeaders(headers.dropped());
    return written;
  }

  @Override
  public void abort() {
    delivery.abort();
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      OpenWriters.remove(queryId);
    }
  }

  private String topic(UTF8String topic) {
    if (topic == null) {
      throw new IllegalArgumentException(
          "a row has no topic: set the option topic, or a topic in each row");
    }
    // Nearly all rows have the same topic, whose name is decoded once.
    if (!topic.equals(lastTopic)) {
      lastTopic = topic.copy();
      lastTopicName = topic.toString();
    }
    return lastTopicName;
  }
}
