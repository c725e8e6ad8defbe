package dev.headwater.rowlineage;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A set of parents as bytes.
 *
 * <p>The form is a contract: the state of a streaming query consists of these bytes, and later
 * versions have to continue its checkpoint. So it does not depend on a library's form of a bitmap,
 * and a change needs another number and a reader for this one:
 *
 * <pre>
 * 1                       the number of this form, one byte
 * PARTITIONS              their number, then for each, in the order of their texts:
 *   LENGTH TOPIC PARTITION  the topic in UTF-8
 *   OFFSETS               the number of offsets, then runs of consecutive ones, ascending:
 *     2 * GAP             a run of one; GAP is the distance from the offset after the previous run
 *     2 * GAP + 1, LENGTH - 2  a longer run
 *   RANGES                the number of ranges with unknown parents, then for each, ascending:
 *     GAP, LENGTH - 1
 * OTHERS                  the number of other texts, then for each LENGTH TEXT, sorted
 * </pre>
 *
 * All numbers are variable-length: seven bits in each byte, the lowest first; the highest bit is
 * set in all bytes but the last one.
 *
 * <p>Versions before this class kept the texts of parents with Spark's `collect_set`. Their state
 * has the same type, and its first byte is 0, so that it is read as well.
 */
final class ParentState {
  private static final byte FORM = 1;
  private static final byte TEXTS = 0;

  private ParentState() {}

  static byte[] write(ParentSet parents) {
    Output out = new Output();
    out.bytes[out.size++] = FORM;
    List<ParentSet.Partition> partitions = parents.partitions();
    out.add(partitions.size());
    for (ParentSet.Partition partition : partitions) {
      out.add(partition.topic().getBytes());
      out.add(partition.number());
      ParentSet.Parents in = parents.in(partition);
      out.add(in.offsets().size());
      RunWriter runs = new RunWriter(out);
      in.offsets().forEach(runs::add);
      runs.end();
      out.add(in.ranges().size());
      long[] end = {0};
      in.ranges()
          .forEach(
              (first, last) -> {
                out.add(first - end[0]);
                out.add(last - first);
                end[0] = last + 1;
              });
    }
    out.add(parents.others().size());
    for (String other : parents.others()) {
      out.add(other.getBytes(StandardCharsets.UTF_8));
    }
    return Arrays.copyOf(out.bytes, out.size);
  }

  static ParentSet read(byte[] bytes) {
    if (bytes[0] == TEXTS) {
      return readTexts(bytes);
    }
    if (bytes[0] != FORM) {
      throw new IllegalStateException(
          "the checkpoint was written by a later version of Headwater: the parents in its state"
              + " have form "
              + bytes[0]
              + ", this version reads up to "
              + FORM);
    }
    ParentSet parents = new ParentSet();
    Input in = new Input(bytes);
    for (long left = in.number(); left > 0; left--) {
      UTF8String topic = UTF8String.fromBytes(in.text());
      ParentSet.Parents all = parents.in(topic, (int) in.number());
      readRuns(in, all.offsets());
      long end = 0;
      for (long ranges = in.number(); ranges > 0; ranges--) {
        long first = end + in.number();
        end = first + in.number() + 1;
        all.ranges().add(first, end - 1);
      }
    }
    for (long left = in.number(); left > 0; left--) {
      parents.addOther(new String(in.text(), StandardCharsets.UTF_8));
    }
    return parents;
  }

  private static void readRuns(Input in, OffsetSet offsets) {
    long end = 0;
    for (long left = in.number(); left > 0; ) {
      long head = in.number();
      long first = end + (head >>> 1);
      long length = (head & 1) == 0 ? 1 : in.number() + 2;
      offsets.add(first, first + length - 1);
      end = first + length;
      left -= length;
    }
  }

  private static ParentSet readTexts(byte[] bytes) {
    UnsafeRow row = new UnsafeRow(1);
    row.pointTo(bytes, bytes.length);
    ArrayData texts = row.getArray(0);
    ParentSet parents = new ParentSet();
    for (int i = 0; i < texts.numElements(); i++) {
      parents.add(texts.getUTF8String(i));
    }
    return parents;
  }

  /** Writes runs of consecutive offsets. */
  private static final class RunWriter {
    private final Output out;
    private long end;
    private long first;
    private long length;

    RunWriter(Output out) {
      this.out = out;
    }

    void add(long offset) {
      if (length > 0 && offset == first + length) {
        length++;
        return;
      }
      end();
      first = offset;
      length = 1;
    }

    void end() {
      if (length == 1) {
        out.add(first - end << 1);
      } else if (length > 1) {
        out.add(first - end << 1 | 1);
        out.add(length - 2);
      }
      end = first + length;
    }
  }

  private static final class Output {
    private static final int MAX_NUMBER_BYTES = 10;
    private byte[] bytes = new byte[64];
    private int size;

    void add(long number) {
      reserve(MAX_NUMBER_BYTES);
      long left = number;
      while ((left & ~0x7FL) != 0) {
        bytes[size++] = (byte) (left | 0x80);
        left >>>= 7;
      }
      bytes[size++] = (byte) left;
    }

    void add(byte[] text) {
      add(text.length);
      reserve(text.length);
      System.arraycopy(text, 0, bytes, size, text.length);
      size += text.length;
    }

    private void reserve(int more) {
      if (bytes.length - size < more) {
        bytes = Arrays.copyOf(bytes, Math.max(bytes.length * 2, size + more));
      }
    }
  }

  private static final class Input {
    private final byte[] bytes;
    private int at = 1;

    Input(byte[] bytes) {
      this.bytes = bytes;
    }

    long number() {
      long number = 0;
      for (int shift = 0; ; shift += 7) {
        byte next = bytes[at++];
        number |= (next & 0x7FL) << shift;
        if (next >= 0) {
          return number;
        }
      }
    }

    byte[] text() {
      int length = (int) number();
      at += length;
      return Arrays.copyOfRange(bytes, at - length, at);
    }
  }
}
