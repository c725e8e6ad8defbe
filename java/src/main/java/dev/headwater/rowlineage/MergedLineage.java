package dev.headwater.rowlineage;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The lineage of a row that was made from several: the first parents as a text, the number and the
 * text of the others, and a hash of all. The same values as `lineage_of` in `spark/source.py`.
 */
final class MergedLineage {
  // As in `model/header.py`.
  static final int MAX_LISTED = 64;
  private static final int MAX_PARENTS_BYTES = 32 * 1024;

  private final StringBuilder text = new StringBuilder();
  private final int maxListed;
  private long count;
  // Where the first parents end that are listed by default, and those that may be listed.
  private int endOfDefault = -1;
  private int endOfListed = -1;

  private MergedLineage(int maxListed) {
    this.maxListed = maxListed;
  }

  /** The struct `lineage`. */
  static InternalRow of(ParentSet parents, int maxListed) {
    MergedLineage lineage = new MergedLineage(maxListed);
    lineage.addInexact(parents);
    for (ParentSet.Partition partition : parents.partitions()) {
      String prefix = partition.prefix();
      TextOrder.forEach(
          parents.in(partition).offsets().toArray(),
          offset -> lineage.begin().append(prefix).append(offset));
    }
    return lineage.row();
  }

  /** What is not the address of a parent comes first, so that it is listed. */
  private void addInexact(ParentSet parents) {
    long all = parents.others().size();
    for (ParentSet.Partition partition : parents.partitions()) {
      all += parents.in(partition).ranges().size();
    }
    for (ParentSet.Partition partition : parents.partitions()) {
      String prefix = ParentText.WITHIN + partition.prefix();
      OffsetRanges.Action add =
          (first, last) -> begin().append(prefix).append(first).append(ParentText.TO).append(last);
      OffsetRanges ranges = parents.in(partition).ranges();
      if (all > maxListed) {
        ranges.forHull(add);
      } else {
        ranges.forEach(add);
      }
    }
    parents.others().forEach(other -> begin().append(other));
  }

  private StringBuilder begin() {
    if (count == MAX_LISTED) {
      endOfDefault = text.length();
    }
    if (count == maxListed) {
      endOfListed = text.length();
    }
    count++;
    return text.isEmpty() ? text : text.append(',');
  }

  private InternalRow row() {
    int listed = maxListed;
    int end = endOfListed;
    int length = end < 0 ? text.length() : end;
    if (maxListed > MAX_LISTED && length > MAX_PARENTS_BYTES) {
      // The default number fits into a header whatever the names of the topics.
      listed = MAX_LISTED;
      end = endOfDefault;
    }
    String all = text.toString();
    boolean more = end >= 0;
    InternalRow row = new GenericInternalRow(LineageStruct.FIELDS);
    if (count > 0) {
      row.update(LineageStruct.PARENTS, utf8(more ? all.substring(0, end) : all));
    }
    row.update(LineageStruct.UNLISTED, more ? count - listed : 0L);
    if (more) {
      row.update(LineageStruct.ALL_PARENTS_HASH, utf8(sha256(all)));
      row.update(LineageStruct.REST, utf8(all.substring(end + 1)));
    }
    return row;
  }

  private static UTF8String utf8(String text) {
    return UTF8String.fromString(text);
  }

  private static String sha256(String text) {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      return HexFormat.of().formatHex(digest.digest(text.getBytes(StandardCharsets.UTF_8)));
    } catch (NoSuchAlgorithmException missing) {
      throw new IllegalStateException(missing);
    }
  }
}
