package dev.headwater.rowlineage;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;

/** What the expressions compute. */
class LineageFunctionsTest {
  private static UTF8String utf8(String text) {
    return UTF8String.fromString(text);
  }

  private static InternalRow lineage(String parents, String rest) {
    InternalRow row = LineageFunctions.row(false);
    row.update(LineageStruct.PARENTS, utf8(parents));
    row.update(LineageStruct.REST, rest == null ? null : utf8(rest));
    return row;
  }

  @Test
  void headersThatHeadwaterWroteOnTheParentAreNotCopied() {
    List<Object> own = new ArrayList<>();
    List<String> names =
        List.of(
            "job_name",
            "type",
            "job_version",
            "batch_version",
            "parent_lineage",
            "lineage",
            "lineage_dropped_headers");
    for (String name : names) {
      own.add(new GenericInternalRow(new Object[] {utf8(name), new byte[0]}));
    }
    ArrayData all =
        LineageFunctions.headers(
            new GenericArrayData(own.toArray()), lineage("t/0@1", null), utf8("job"), utf8("run"));
    List<String> found = new ArrayList<>();
    for (int i = 0; i < all.numElements(); i++) {
      InternalRow header = all.getStruct(i, 2);
      found.add(header.getUTF8String(0) + "=" + new String(header.getBinary(1)));
    }
    assertEquals(List.of("type=", "lineage=1 run t/0@1"), found);
  }

  @Test
  void unknownParentsAreAddedOnceAndTheOthersAreKept() {
    InternalRow once = LineageFunctions.withUnknown(lineage("t/0@1,t/0@2", "t/0@3"));
    InternalRow twice = LineageFunctions.withUnknown(once);
    for (InternalRow found : List.of(once, twice)) {
      assertEquals(utf8("t/0@1,t/0@2,?"), found.getUTF8String(LineageStruct.PARENTS));
      assertEquals(utf8("t/0@3"), found.getUTF8String(LineageStruct.REST));
    }
    InternalRow none = LineageFunctions.withUnknown(null);
    assertEquals(utf8("?"), none.getUTF8String(LineageStruct.PARENTS));
  }

  @Test
  void theOrdinalIsAddedAndRemovedWithoutAChangeToTheOtherFields() {
    InternalRow numbered = LineageFunctions.withOrdinal(lineage("t/0@1", "t/0@3"));
    assertEquals(0, numbered.getLong(LineageStruct.ORDINAL));
    InternalRow bare = LineageFunctions.withoutOrdinal(numbered);
    assertEquals(lineage("t/0@1", "t/0@3"), bare);
  }
}
