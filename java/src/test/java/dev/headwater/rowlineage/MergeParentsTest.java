package dev.headwater.rowlineage;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;

class MergeParentsTest {
  private static final MergeParents MERGE =
      (MergeParents)
          MergeParents.of(new BoundReference(0, LineageStruct.TYPE, true)).aggregateFunction();

  private final Random random = new Random(7);

  @Test
  void parentsAreSortedByTheirTextsForAnyOrderAndPartsOfTheRows() {
    List<Object> rows = new ArrayList<>();
    for (int i = 0; i < 40; i++) {
      rows.add(record("t", random.nextInt(12), random.nextLong(20_000)));
      rows.add(texts("u-1/0@" + random.nextInt(20) + ",u/0@" + random.nextInt(20), null));
    }
    String expected = String.join(",", sorted(rows));
    for (int attempt = 0; attempt < 20; attempt++) {
      Collections.shuffle(rows, random);
      InternalRow lineage = MergedLineage.of(inParts(rows, 3), 1000);
      assertEquals(expected, text(lineage, LineageStruct.PARENTS));
      assertNull(text(lineage, LineageStruct.REST));
      assertNull(text(lineage, LineageStruct.ALL_PARENTS_HASH));
    }
  }

  @Test
  void theParentsBeyondSixtyFourAreCountedHashedAndInTheRest() {
    List<Object> rows = new ArrayList<>();
    for (int i = 0; i < 20_000; i++) {
      rows.add(record("t", i % 3, (long) i * i % 17_389));
    }
    List<String> all = sorted(rows);
    InternalRow lineage = (InternalRow) MERGE.eval(inParts(rows, 4));
    assertEquals(String.join(",", all.subList(0, 64)), text(lineage, LineageStruct.PARENTS));
    assertEquals(all.size() - 64, lineage.getLong(LineageStruct.UNLISTED));
    assertEquals(String.join(",", all.subList(64, all.size())), text(lineage, LineageStruct.REST));
    assertEquals(sha256(String.join(",", all)), text(lineage, LineageStruct.ALL_PARENTS_HASH));
  }

  @Test
  void moreThanTheDefaultIsListedOnlyIfItFitsIntoAHeader() {
    ParentSet all = new ParentSet();
    for (int offset = 0; offset < 1000; offset++) {
      all.add(utf8("t".repeat(249)), 0, offset);
    }
    assertEquals(936, MergedLineage.of(all, 1000).getLong(LineageStruct.UNLISTED));
    assertEquals(900, MergedLineage.of(all, 100).getLong(LineageStruct.UNLISTED));
    assertEquals(990, MergedLineage.of(all, 10).getLong(LineageStruct.UNLISTED));
  }

  @Test
  void aGroupWithoutParentsHasNone() {
    InternalRow nothing = texts(null, null);
    ParentSet all = inParts(Arrays.<Object>asList(nothing, null, texts("-", null)), 2);
    InternalRow lineage = (InternalRow) MERGE.eval(all);
    assertNull(text(lineage, LineageStruct.PARENTS));
    assertEquals(0, lineage.getLong(LineageStruct.UNLISTED));
  }

  @Test
  void rangesThatMeetAreUnitedAndListedBeforeTheParents() {
    List<Object> rows = new ArrayList<>();
    rows.add(texts("t/0@5,~t/0@8..12,?", "~t/1@0..3"));
    rows.add(texts("~t/0@20..29,t/0@7", null));
    rows.add(texts("~t/0@1..3,~t/0@13..15", null));
    rows.add(texts("~t/0@2..9", "?"));
    for (int attempt = 0; attempt < 10; attempt++) {
      Collections.shuffle(rows, random);
      InternalRow lineage = (InternalRow) MERGE.eval(inParts(rows, 2));
      assertEquals(
          "~t/0@1..15,~t/0@20..29,~t/1@0..3,?,t/0@5,t/0@7", text(lineage, LineageStruct.PARENTS));
    }
  }

  @Test
  void rangesThatAreTooManyToBeListedBecomeOneForEachPartition() {
    ParentSet all = new ParentSet();
    for (int i = 0; i < 100; i++) {
      all.add(utf8("~t/" + i % 2 + "@" + 10 * i + ".." + (10 * i + 1) + ",t/0@" + i));
    }
    InternalRow lineage = (InternalRow) MERGE.eval(all);
    String listed = text(lineage, LineageStruct.PARENTS);
    assertTrue(listed.startsWith("~t/0@0..981,~t/1@10..991,t/0@0,"), listed);
    assertEquals(102 - 64, lineage.getLong(LineageStruct.UNLISTED));
  }

  @Test
  void aRangeOfParentsIsAllOfThem() {
    ParentSet all = new ParentSet();
    all.add(utf8("t/0@8..11,t/0@10"));
    assertEquals(
        "t/0@10,t/0@11,t/0@8,t/0@9", text((InternalRow) MERGE.eval(all), LineageStruct.PARENTS));
  }

  @Test
  void aTextThatIsNotAnAddressIsKept() {
    String last = "t/0@" + Long.MAX_VALUE;
    for (String item :
        List.of(
            "x",
            "t/0",
            "t/@1",
            "/0@1",
            "t/00@1",
            "t/0@01",
            "t/0@x",
            "t/2147483648@1",
            "t/0@9223372036854775808",
            "t/0@5..4",
            "~t/0@5",
            "t/0@1..2..3",
            "t/0@",
            "@",
            "t/0@-1")) {
      ParentSet all = new ParentSet();
      all.add(utf8(last + "," + item + "," + item));
      assertEquals(
          item + "," + last, text((InternalRow) MERGE.eval(all), LineageStruct.PARENTS), item);
    }
  }

  /** The set of these rows, each added to one of several buffers that are sent and merged. */
  private ParentSet inParts(List<Object> rows, int parts) {
    List<ParentSet> buffers = new ArrayList<>();
    for (int i = 0; i < parts; i++) {
      buffers.add(MERGE.createAggregationBuffer());
    }
    for (Object row : rows) {
      int part = random.nextInt(parts);
      buffers.set(
          part, MERGE.update(buffers.get(part), new GenericInternalRow(new Object[] {row})));
    }
    ParentSet all = MERGE.createAggregationBuffer();
    for (ParentSet each : buffers) {
      all = MERGE.merge(all, MERGE.deserialize(MERGE.serialize(each)));
    }
    return all;
  }

  private static List<String> sorted(List<Object> rows) {
    TreeSet<String> all = new TreeSet<>();
    for (Object each : rows) {
      InternalRow row = (InternalRow) each;
      if (row.isNullAt(LineageStruct.PARENTS)) {
        all.add(text(row, 0) + "/" + row.getInt(1) + "@" + row.getLong(2));
      } else {
        all.addAll(List.of(text(row, LineageStruct.PARENTS).split(",")));
      }
    }
    return List.copyOf(all);
  }

  private static InternalRow record(String topic, int partition, long offset) {
    return new GenericInternalRow(
        new Object[] {utf8(topic), partition, offset, null, 0L, null, null, null});
  }

  private static InternalRow texts(String parents, String rest) {
    return new GenericInternalRow(
        new Object[] {null, null, null, utf8(parents), 0L, null, null, utf8(rest)});
  }

  private static UTF8String utf8(String text) {
    return UTF8String.fromString(text);
  }

  private static String text(InternalRow row, int field) {
    return row.isNullAt(field) ? null : row.getUTF8String(field).toString();
  }

  private static String sha256(String text) {
    try {
      byte[] digest =
          MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
      return HexFormat.of().formatHex(digest);
    } catch (NoSuchAlgorithmException missing) {
      throw new IllegalStateException(missing);
    }
  }
}
