package headwater.delivery;

import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The stamp of a parent, as people know it: `["{job_name, a}",…]`.
 *
 * <p>All records of a parent's batch have the same one: it is recognised by its bytes, and its text
 * is made once.
 */
final class ParentStamp {
  static final int HEADERS = 3;
  private static final Names NAMES = new Names(List.of("job_name", "job_version", "batch_version"));

  private final InternalRow[] last = new InternalRow[HEADERS];
  private Header made;

  /** The header `parent_lineage`; null if the parent's headers do not begin with a stamp. */
  Header of(ArrayData headers) {
    if (headers == null || headers.numElements() < HEADERS) {
      return null;
    }
    if (!isLast(headers)) {
      byte[] text = text(headers);
      if (text == null) {
        return null;
      }
      for (int place = 0; place < HEADERS; place++) {
        last[place] = headers.getStruct(place, 2).copy();
      }
      made = new RecordHeader(LineageHeaders.PARENT_LINEAGE, text);
    }
    return made;
  }

  private boolean isLast(ArrayData headers) {
    for (int place = 0; place < HEADERS; place++) {
      if (!headers.getStruct(place, 2).equals(last[place])) {
        return false;
      }
    }
    return true;
  }

  private static byte[] text(ArrayData headers) {
    Bytes out = new Bytes();
    for (int place = 0; place < HEADERS; place++) {
      InternalRow one = headers.getStruct(place, 2);
      UTF8String name = one.getUTF8String(0);
      if (!NAMES.contains(name)) {
        return null;
      }
      out.add(place == 0 ? "[\"{" : ",\"{");
      if (!one.isNullAt(1)) {
        out.add(name.getBytes()).add(", ").addEscaped(one.getBinary(1));
      }
      out.add("}\"");
    }
    return out.add(']').toArray();
  }
}
