package dev.headwater.delivery;

import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Formats the stamp of a parent: `["{job_name, a}",…]`.
 *
 * <p>All records of a parent's batch have the same stamp, so the last text is cached by the bytes
 * of the stamp.
 */
final class ParentStamp {
  static final int HEADERS = 3;
  // The text is for people; a stamp of another producer may have any length.
  static final int MAX_VALUE_BYTES = 1024;
  private static final HeaderNames NAMES =
      new HeaderNames(List.of("job_name", "job_version", "batch_version"));

  private final InternalRow[] last = new InternalRow[HEADERS];
  private Header cached;

  /** The header `parent_lineage`; null if the parent's headers do not start with a stamp. */
  Header of(ArrayData headers) {
    if (headers == null || headers.numElements() < HEADERS) {
      return null;
    }
    if (!isLast(headers)) {
      byte[] text = text(headers);
      if (text == null) {
        return null;
      }
      for (int i = 0; i < HEADERS; i++) {
        last[i] = headers.getStruct(i, 2).copy();
      }
      cached = new RecordHeader(LineageHeaders.PARENT_LINEAGE, text);
    }
    return cached;
  }

  private boolean isLast(ArrayData headers) {
    for (int i = 0; i < HEADERS; i++) {
      if (!headers.getStruct(i, 2).equals(last[i])) {
        return false;
      }
    }
    return true;
  }

  private static byte[] text(ArrayData headers) {
    Bytes out = new Bytes();
    for (int i = 0; i < HEADERS; i++) {
      InternalRow one = headers.getStruct(i, 2);
      UTF8String name = one.getUTF8String(0);
      if (!NAMES.contains(name)) {
        return null;
      }
      out.add(i == 0 ? "[\"{" : ",\"{");
      if (!one.isNullAt(1)) {
        out.add(name.getBytes()).add(", ");
        addShortened(out, one.getBinary(1));
      }
      out.add("}\"");
    }
    return out.add(']').toArray();
  }

  private static void addShortened(Bytes out, byte[] value) {
    int end = MAX_VALUE_BYTES;
    if (value.length <= end) {
      out.addEscaped(value);
      return;
    }
    // Not within a character of UTF-8.
    while (end > MAX_VALUE_BYTES - 3 && (value[end] & 0xC0) == 0x80) {
      end--;
    }
    out.addEscaped(Arrays.copyOf(value, end)).add("…");
  }
}
