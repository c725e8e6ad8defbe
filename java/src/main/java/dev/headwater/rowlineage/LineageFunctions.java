package dev.headwater.rowlineage;

import static dev.headwater.rowlineage.LineageStruct.ALL_PARENTS_HASH;
import static dev.headwater.rowlineage.LineageStruct.FIELDS;
import static dev.headwater.rowlineage.LineageStruct.OFFSET;
import static dev.headwater.rowlineage.LineageStruct.ORDINAL;
import static dev.headwater.rowlineage.LineageStruct.PARENTS;
import static dev.headwater.rowlineage.LineageStruct.PARTITION;
import static dev.headwater.rowlineage.LineageStruct.REST;
import static dev.headwater.rowlineage.LineageStruct.TOPIC;
import static dev.headwater.rowlineage.LineageStruct.UNLISTED;

import dev.headwater.delivery.LineageHeaders;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/** What the expressions of {@link LineageStruct} compute; called by generated code. */
public final class LineageFunctions {
  // As in `model/header.py`: the most that a header lists.
  static final int MAX_LISTED_PARENTS = 64;
  static final int MAX_PARENTS_BYTES = 32 * 1024;
  // A position in a nested array or map gets 20 bits.
  private static final long POSITIONS = 1L << 20;
  // As many have space in an ordinal.
  static final int MAX_POSITIONS = 3;

  private static final UTF8String LINEAGE = UTF8String.fromString("lineage");
  private static final UTF8String UNKNOWN = UTF8String.fromString("?");
  private static final UTF8String COMMA = UTF8String.fromString(",");

  private LineageFunctions() {}

  /**
   * The parents of the left row, then those of the right one. Either may be null, or have none;
   * both have the same fields.
   */
  public static InternalRow join(InternalRow left, InternalRow right) {
    UTF8String first = left == null ? null : parents(left);
    UTF8String second = right == null ? null : parents(right);
    if (first == null || second == null) {
      return first == null ? right : left;
    }
    boolean same = first.equals(second) && unlisted(left) + unlisted(right) == 0;
    UTF8String listed = same ? first : joined(first, second);
    UTF8String rest = joined(text(left, REST), text(right, REST));
    UTF8String hidden = joined(text(left, ALL_PARENTS_HASH), text(right, ALL_PARENTS_HASH));
    long unlisted = unlisted(left) + unlisted(right);
    if (listed.numBytes() > MAX_PARENTS_BYTES) {
      int end = position(listed, MAX_LISTED_PARENTS);
      UTF8String others = listed.substringSQL(end + 2, Integer.MAX_VALUE);
      hidden = joined(listed, hidden);
      unlisted += count(others);
      rest = joined(others, rest);
      listed = listed.substring(0, end);
    } else if (hidden != null) {
      hidden = joined(listed, hidden);
    }
    GenericInternalRow row = row(isNumbered(left));
    row.update(PARENTS, listed);
    row.setLong(UNLISTED, unlisted);
    row.update(ALL_PARENTS_HASH, hidden == null ? null : sha256(hidden));
    row.update(REST, rest);
    if (row.numFields() > FIELDS) {
      row.setLong(ORDINAL, ordinal(ordinalOf(left), ordinalOf(right)));
    }
    return row;
  }

  /** The parents, and others that are not known; may be null. */
  public static InternalRow withUnknown(InternalRow lineage) {
    UTF8String listed = lineage == null ? null : parents(lineage);
    if (listed == null) {
      GenericInternalRow row = row(false);
      row.update(PARENTS, UNKNOWN);
      return row;
    }
    GenericInternalRow row = fieldsOf(lineage, false);
    for (int field : new int[] {TOPIC, PARTITION, OFFSET}) {
      row.setNullAt(field);
    }
    row.update(PARENTS, listed.contains(UNKNOWN) ? listed : joined(listed, UNKNOWN));
    return row;
  }

  /** The lineage with the number of the row, which is 0 if it has none. */
  public static InternalRow withOrdinal(InternalRow lineage) {
    return lineage == null || isNumbered(lineage) ? lineage : fieldsOf(lineage, true);
  }

  /** The lineage without the number of the row. */
  public static InternalRow withoutOrdinal(InternalRow lineage) {
    return lineage == null || !isNumbered(lineage) ? lineage : fieldsOf(lineage, false);
  }

  /**
   * The number of a row, from that of the row it was made of and its position among its siblings.
   */
  public static long ordinal(long before, long position) {
    return before * POSITIONS + position;
  }

  /** The addresses of all parents as one text, or null. */
  public static UTF8String parentsText(InternalRow lineage) {
    return lineage == null ? null : joined(parents(lineage), text(lineage, REST));
  }

  /** The addresses of all parents, or null. */
  public static ArrayData parentsArray(InternalRow lineage) {
    UTF8String all = parentsText(lineage);
    return all == null ? null : new GenericArrayData(all.split(COMMA, -1));
  }

  /**
   * The headers of a record for Spark's Kafka sink: those of the job, and its lineage.
   *
   * @param own of the job, or null
   */
  public static ArrayData headers(
      ArrayData own, InternalRow lineage, UTF8String jobName, UTF8String runId) {
    List<Object> all = new ArrayList<>();
    for (int i = 0; own != null && i < own.numElements(); i++) {
      InternalRow header = own.getStruct(i, 2);
      // Those that the job copies from the parent are not about this record.
      if (!LineageHeaders.isOwn(header.getUTF8String(0))) {
        all.add(header.copy());
      }
    }
    byte[] value = header(lineage, jobName, runId);
    all.add(new GenericInternalRow(new Object[] {LINEAGE, value}));
    return new GenericArrayData(all.toArray());
  }

  /** The `lineage` header: docs/concepts/lineage-header.md. */
  private static byte[] header(InternalRow lineage, UTF8String jobName, UTF8String runId) {
    UTF8String listed = lineage == null ? null : parents(lineage);
    String parents = listed == null ? "-" : listed.toString();
    String batch = batch();
    boolean isVersion1 = batch == null && parents.indexOf('~') < 0 && parents.indexOf('?') < 0;
    StringBuilder out = new StringBuilder(isVersion1 ? "1 " : "2 ").append(runId);
    out.append(' ').append(parents);
    if (lineage != null && unlisted(lineage) > 0) {
      out.append(",+").append(unlisted(lineage));
    }
    if (lineage != null && ordinalOf(lineage) > 0) {
      out.append(" #").append(ordinalOf(lineage));
    }
    if (lineage != null && !lineage.isNullAt(ALL_PARENTS_HASH)) {
      out.append(" =").append(recordId(jobName, lineage));
    }
    if (batch != null) {
      out.append(" b").append(batch);
    }
    return out.toString().getBytes(StandardCharsets.UTF_8);
  }

  /** The lineage as stored in a table: the fields of {@link StoredLineage#TYPE}. */
  public static InternalRow stored(
      InternalRow lineage, UTF8String jobName, UTF8String jobVersion, UTF8String runId) {
    if (lineage == null) {
      return null;
    }
    boolean single = lineage.isNullAt(PARENTS);
    String batch = batch();
    return new GenericInternalRow(
        new Object[] {
          single ? text(lineage, TOPIC) : null,
          single && !lineage.isNullAt(PARTITION) ? lineage.getInt(PARTITION) : null,
          single && !lineage.isNullAt(OFFSET) ? lineage.getLong(OFFSET) : null,
          single ? null : parentsArray(lineage),
          recordId(jobName, lineage),
          jobName,
          jobVersion,
          batch == null ? null : Long.valueOf(batch),
          runId
        });
  }

  /** As `model.record.record_id`. */
  private static UTF8String recordId(UTF8String jobName, InternalRow lineage) {
    UTF8String hash = text(lineage, ALL_PARENTS_HASH);
    UTF8String parents = hash == null ? parents(lineage) : hash;
    String identity = jobName + "\0" + (parents == null ? "" : parents) + "\0" + ordinalOf(lineage);
    return sha256(UTF8String.fromString(identity)).substring(0, 32);
  }

  /** The number of the micro-batch, or null in a batch job; Spark sets it for tasks. */
  private static String batch() {
    TaskContext task = TaskContext.get();
    return task == null ? null : task.getLocalProperty("streaming.sql.batchId");
  }

  /** The parents that the header lists, or null. */
  static UTF8String parents(InternalRow lineage) {
    if (!lineage.isNullAt(PARENTS)) {
      return lineage.getUTF8String(PARENTS);
    }
    if (lineage.isNullAt(TOPIC)) {
      return null;
    }
    String address =
        lineage.getUTF8String(TOPIC)
            + "/"
            + lineage.getInt(PARTITION)
            + "@"
            + lineage.getLong(OFFSET);
    return UTF8String.fromString(address);
  }

  static UTF8String text(InternalRow lineage, int field) {
    return lineage.isNullAt(field) ? null : lineage.getUTF8String(field);
  }

  static long unlisted(InternalRow lineage) {
    return lineage.isNullAt(UNLISTED) ? 0 : lineage.getLong(UNLISTED);
  }

  static boolean isNumbered(InternalRow lineage) {
    return lineage.numFields() > FIELDS;
  }

  static long ordinalOf(InternalRow lineage) {
    return isNumbered(lineage) && !lineage.isNullAt(ORDINAL) ? lineage.getLong(ORDINAL) : 0;
  }

  static GenericInternalRow row(boolean numbered) {
    GenericInternalRow row = new GenericInternalRow(numbered ? FIELDS + 1 : FIELDS);
    row.setLong(UNLISTED, 0);
    if (numbered) {
      row.setLong(ORDINAL, 0);
    }
    return row;
  }

  /** A copy of all fields but the ordinal. */
  static GenericInternalRow fieldsOf(InternalRow lineage, boolean numbered) {
    GenericInternalRow row = row(numbered);
    for (int i = 0; i < FIELDS; i++) {
      row.update(i, lineage.get(i, LineageStruct.TYPE.apply(i).dataType()));
    }
    return row;
  }

  private static UTF8String joined(UTF8String first, UTF8String second) {
    if (first == null || second == null) {
      return first == null ? second : first;
    }
    return UTF8String.concat(first, COMMA, second);
  }

  private static int count(UTF8String addresses) {
    int count = 1;
    for (byte each : addresses.getBytes()) {
      count += each == ',' ? 1 : 0;
    }
    return count;
  }

  /** Where the address after the first ones begins, in bytes: addresses are ASCII. */
  private static int position(UTF8String addresses, int count) {
    byte[] bytes = addresses.getBytes();
    int seen = 0;
    for (int i = 0; i < bytes.length; i++) {
      if (bytes[i] == ',' && ++seen == count) {
        return i;
      }
    }
    return bytes.length;
  }

  private static UTF8String sha256(UTF8String text) {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      byte[] hash = digest.digest(text.toString().getBytes(StandardCharsets.UTF_8));
      return UTF8String.fromString(HexFormat.of().formatHex(hash));
    } catch (NoSuchAlgorithmException missing) {
      throw new IllegalStateException(missing);
    }
  }
}
