package dev.headwater.delivery;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The column `lineage` of a row: one parent as topic, partition and offset, or several as text, in
 * which ranges and unknown parents may occur.
 *
 * <p>A view on Spark's row, which Spark reuses for the next record: valid only until then.
 */
final class Parents {
  static final int FIELDS = 8;
  static final Parents NONE = new Parents(null);
  // First characters of items that are not addresses: a range that contains parents, such as
  // `~visits/0@3..17`, and parents that are not known.
  static final char RANGE = '~';
  static final char UNKNOWN = '?';

  private static final int TOPIC = 0;
  private static final int PARTITION = 1;
  private static final int OFFSET = 2;
  private static final int TEXT = 3;
  private static final int UNLISTED = 4;
  private static final int ALL_PARENTS_HASH = 5;
  private static final int HEADERS = 6;
  private static final int REST = 7;

  private final InternalRow row;

  Parents(InternalRow row) {
    this.row = row;
  }

  /** The topic of the only parent, or null. */
  UTF8String topic() {
    return has(TOPIC) ? row.getUTF8String(TOPIC) : null;
  }

  int partition() {
    return row.getInt(PARTITION);
  }

  long offset() {
    return row.getLong(OFFSET);
  }

  /** The addresses of several parents, or null. */
  UTF8String text() {
    return has(TEXT) ? row.getUTF8String(TEXT) : null;
  }

  /** Whether all items are addresses, those of the rest included. */
  boolean areExact() {
    return isExact(text()) && isExact(rest());
  }

  private static boolean isExact(UTF8String items) {
    if (items != null) {
      for (int i = 0; i < items.numBytes(); i++) {
        byte one = Platform.getByte(items.getBaseObject(), items.getBaseOffset() + i);
        if (one == RANGE || one == UNKNOWN) {
          return false;
        }
      }
    }
    return true;
  }

  long unlisted() {
    return has(UNLISTED) ? row.getLong(UNLISTED) : 0;
  }

  UTF8String allParentsHash() {
    return has(ALL_PARENTS_HASH) ? row.getUTF8String(ALL_PARENTS_HASH) : null;
  }

  /** The addresses that are not in the text, or null. */
  UTF8String rest() {
    return has(REST) ? row.getUTF8String(REST) : null;
  }

  /** The headers of the only parent, or null. */
  ArrayData headers() {
    return has(HEADERS) ? row.getArray(HEADERS) : null;
  }

  /** Writes the addresses in the format of the `lineage` header. */
  void writeTo(Bytes out) {
    UTF8String topic = topic();
    if (text() != null) {
      out.add(text().getBytes());
      if (isExact(text()) && !isExact(rest())) {
        // Without it, the header would be that of exact parents, which is an identity.
        out.add(',').add(UNKNOWN);
      }
    } else if (topic != null) {
      out.add(topic.getBytes()).add('/').add(partition()).add('@').add(offset());
    } else {
      out.add('-');
    }
  }

  @Override
  public String toString() {
    Bytes out = new Bytes();
    writeTo(out);
    return out.toString();
  }

  private boolean has(int field) {
    return row != null && !row.isNullAt(field);
  }
}
