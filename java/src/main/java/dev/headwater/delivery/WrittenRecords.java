package dev.headwater.delivery;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.List;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/**
 * The records of an interrupted batch that are in the output, as digests of 128 bits. A record that
 * was found twice has two entries.
 *
 * <p>A record is recognized by its identity alone if the plan of the query guarantees that no other
 * has the same, and by identity, key, value and headers otherwise.
 */
final class WrittenRecords implements Serializable {
  private static final long serialVersionUID = 1L;
  // 32 MB in each task that runs the batch again.
  static final int MAX_RECORDS = 2_000_000;

  private final long batch;
  private final RecognizedBy recognizedBy;
  // Two numbers for each entry, in ascending order of the entries.
  private final long[] digests;

  private WrittenRecords(long batch, RecognizedBy recognizedBy, long[] digests) {
    this.batch = batch;
    this.recognizedBy = recognizedBy;
    this.digests = digests;
  }

  long batch() {
    return batch;
  }

  int size() {
    return digests.length / 2;
  }

  /** Collects the records that are found in the output. */
  static final class Builder {
    private final long batch;
    private final RecognizedBy recognizedBy;
    private final List<Digest> found = new ArrayList<>();

    Builder(long batch, RecognizedBy recognizedBy) {
      this.batch = batch;
      this.recognizedBy = recognizedBy;
    }

    void add(byte[] identity, Integer partition, byte[] key, byte[] value, Headers headers) {
      if (found.size() == MAX_RECORDS) {
        throw new ExactlyOnceException(
            "batch "
                + batch
                + " has more than "
                + MAX_RECORDS
                + " records in the output: set maxOffsetsPerTrigger of the source"
                + ExactlyOnceException.WAY_OUT);
      }
      found.add(Digest.of(recognizedBy, identity, partition, key, value, headers));
    }

    WrittenRecords build() {
      Collections.sort(found);
      long[] digests = new long[2 * found.size()];
      for (int i = 0; i < found.size(); i++) {
        digests[2 * i] = found.get(i).high();
        digests[2 * i + 1] = found.get(i).low();
      }
      return new WrittenRecords(batch, recognizedBy, digests);
    }
  }

  private record Digest(long high, long low) implements Comparable<Digest> {
    static Digest of(
        RecognizedBy by,
        byte[] identity,
        Integer partition,
        byte[] key,
        byte[] value,
        Headers headers) {
      byte[] hash =
          by.withContent()
              ? RecordDigest.sha256(
                  withHeaders(identity, by.withPartition() ? partition : null, headers), key, value)
              : RecordDigest.sha256(identity, null, null);
      ByteBuffer bytes = ByteBuffer.wrap(hash);
      return new Digest(bytes.getLong(), bytes.getLong());
    }

    /** Each part begins with its length; headers of Headwater differ from run to run. */
    private static byte[] withHeaders(byte[] identity, Integer partition, Headers headers) {
      Bytes out = new Bytes().add(identity).add('\0').add(partition == null ? -1 : partition);
      for (Header each : headers) {
        if (!LineageHeaders.OWN.contains(each.key())) {
          byte[] name = each.key().getBytes(StandardCharsets.UTF_8);
          byte[] value = each.value();
          out.add(' ').add(name.length).add(' ').add(value == null ? -1 : value.length).add(' ');
          out.add(name).add(value == null ? new byte[0] : value);
        }
      }
      return out.toArray();
    }

    @Override
    public int compareTo(Digest other) {
      int byHigh = Long.compare(high, other.high);
      return byHigh == 0 ? Long.compare(low, other.low) : byHigh;
    }
  }

  private Digest at(int entry) {
    return new Digest(digests[2 * entry], digests[2 * entry + 1]);
  }

  /** The first entry that is not less than a digest. */
  private int firstOf(Digest wanted) {
    int low = 0;
    int high = size();
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (at(middle).compareTo(wanted) < 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /** The rows of one task that are left out. */
  final class LeftOut {
    private final BitSet entries = new BitSet();

    /** Whether the record is in the output; each entry counts for one record. */
    boolean add(ProducerRecord<byte[], byte[]> record) {
      RecordIdentity made = identityOf(record.headers());
      if (recognizedBy.withPartition() && record.partition() == null) {
        throw new ExactlyOnceException("a row has no partition, by which it is recognized");
      }
      Digest digest =
          Digest.of(
              recognizedBy,
              made.identity(),
              record.partition(),
              record.key(),
              record.value(),
              record.headers());
      for (int i = firstOf(digest); i < size() && at(i).equals(digest); i++) {
        if (!entries.get(i)) {
          entries.set(i);
          return true;
        }
      }
      return false;
    }

    BitSet entries() {
      return entries;
    }

    private static RecordIdentity identityOf(Headers headers) {
      RecordIdentity made = RecordIdentity.of(headers);
      if (made == null || made.identity() == null) {
        throw new ExactlyOnceException(
            "a row has no exact parents: " + DeliveryFailedException.parentsIn(headers));
      }
      return made;
    }
  }

  /**
   * Adds up what the tasks have left out and returns the number of records.
   *
   * @throws ExactlyOnceException more rows were left out than are in the output: rows in different
   *     tasks can't be distinguished, and one of them may be missing
   */
  int check(List<BitSet> tasks) {
    int[] leftOut = new int[size()];
    int all = 0;
    for (BitSet task : tasks) {
      for (int i = task.nextSetBit(0); i >= 0; i = task.nextSetBit(i + 1)) {
        int first = firstOf(at(i));
        leftOut[first]++;
        all++;
        int last = first + leftOut[first] - 1;
        if (last >= size() || !at(last).equals(at(first))) {
          throw new ExactlyOnceException(
              "batch "
                  + batch
                  + " has rows in several tasks with the same parents"
                  + (recognizedBy.withContent() ? ", key, value and headers" : "")
                  + ", of which not all are in the output"
                  + ExactlyOnceException.WAY_OUT);
        }
      }
    }
    return all;
  }
}
