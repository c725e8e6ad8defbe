package dev.headwater.delivery;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.List;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Headers;

/**
 * The records of an interrupted batch that are in the output, as digests of 128 bits. A record that
 * was found twice has two entries.
 *
 * <p>A record is recognized by its identity alone if the plan of the query guarantees that no other
 * has the same, and by identity, key and value otherwise.
 */
final class WrittenRecords implements Serializable {
  private static final long serialVersionUID = 1L;
  // 32 MB in each task that runs the batch again.
  static final int MAX_RECORDS = 2_000_000;

  private final long batch;
  private final boolean withContent;
  // Two numbers for each entry, in ascending order of the entries.
  private final long[] digests;

  private WrittenRecords(long batch, boolean withContent, long[] digests) {
    this.batch = batch;
    this.withContent = withContent;
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
    private final boolean withContent;
    private final List<Digest> found = new ArrayList<>();

    Builder(long batch, boolean withContent) {
      this.batch = batch;
      this.withContent = withContent;
    }

    void add(byte[] identity, byte[] key, byte[] value) {
      if (found.size() == MAX_RECORDS) {
        throw new ExactlyOnceException(
            "batch "
                + batch
                + " has more than "
                + MAX_RECORDS
                + " records in the output: set maxOffsetsPerTrigger of the source"
                + ExactlyOnceException.WAY_OUT);
      }
      found.add(Digest.of(withContent, identity, key, value));
    }

    WrittenRecords build() {
      Collections.sort(found);
      long[] digests = new long[2 * found.size()];
      for (int i = 0; i < found.size(); i++) {
        digests[2 * i] = found.get(i).high();
        digests[2 * i + 1] = found.get(i).low();
      }
      return new WrittenRecords(batch, withContent, digests);
    }
  }

  private record Digest(long high, long low) implements Comparable<Digest> {
    static Digest of(boolean withContent, byte[] identity, byte[] key, byte[] value) {
      byte[] hash =
          RecordDigest.sha256(identity, withContent ? key : null, withContent ? value : null);
      ByteBuffer bytes = ByteBuffer.wrap(hash);
      return new Digest(bytes.getLong(), bytes.getLong());
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
      Digest digest = Digest.of(withContent, made.identity(), record.key(), record.value());
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
                  + (withContent ? ", key and value" : "")
                  + ", of which not all are in the output"
                  + ExactlyOnceException.WAY_OUT);
        }
      }
    }
    return all;
  }
}
