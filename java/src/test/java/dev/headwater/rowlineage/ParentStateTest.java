package dev.headwater.rowlineage;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HexFormat;
import java.util.Random;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;

class ParentStateTest {
  private static final HexFormat HEX = HexFormat.of();

  /** Checkpoints contain these bytes: a version that fails here can't continue them. */
  private static final String STATE =
      "01"
          + "02"
          // `ads`, partition 300: one offset, 2^63 - 1.
          + ("03" + "616473" + "ac02" + "01" + "feffffffffffffffff01" + "00")
          // `visits`, partition 0: 3 to 5, 9, 1000000; somewhere in 20 to 29.
          + ("06" + "766973697473" + "00" + "05")
          + ("07" + "01" + "06" + "ec887a" + "01" + "14" + "09")
          + ("01" + "01" + "3f");

  private static final String TEXT =
      "~visits/0@20..29,?,ads/300@9223372036854775807,visits/0@1000000,visits/0@3,visits/0@4,"
          + "visits/0@5,visits/0@9";

  /** As Spark 4.1.3 writes the texts `v/0@7` and `v/0@8,a/1@2` of `collect_set`. */
  private static final String TEXTS =
      "0000000000000000"
          + ("38000000" + "10000000" + "0200000000000000" + "0000000000000000")
          + ("05000000" + "20000000" + "0b000000" + "28000000")
          + ("762f304037000000" + "762f3040382c612f3140320000000000");

  @Test
  void theStateHasTheDocumentedForm() {
    ParentSet parents = new ParentSet();
    parents.add(UTF8String.fromString(TEXT));
    assertEquals(STATE, HEX.formatHex(ParentState.write(parents)));
    assertEquals(TEXT, text(ParentState.read(HEX.parseHex(STATE))));
  }

  @Test
  void anyOffsetsAreReadAsWritten() {
    Random random = new Random(3);
    for (int attempt = 0; attempt < 200; attempt++) {
      OffsetSet offsets = new OffsetSet();
      ParentSet parents = new ParentSet();
      long bound = 1L << 1 + random.nextInt(62);
      int count = random.nextInt(3000);
      for (int i = 0; i < count; i++) {
        long first = random.nextLong(bound);
        long last = first + (random.nextInt(10) == 0 ? random.nextInt(300) : 0);
        offsets.add(first, last);
        parents.in(UTF8String.fromString("t"), 0).offsets().add(first, last);
      }
      byte[] state = ParentState.write(parents);
      long[] read = ParentState.read(state).in(UTF8String.fromString("t"), 0).offsets().toArray();
      assertArrayEquals(offsets.toArray(), read);
      assertArrayEquals(state, ParentState.write(ParentState.read(state)));
    }
  }

  @Test
  void aStateOfALaterVersionIsRefused() {
    IllegalStateException error =
        assertThrows(IllegalStateException.class, () -> ParentState.read(new byte[] {2, 0, 0}));
    assertTrue(error.getMessage().contains("later version of Headwater"), error.getMessage());
  }

  @Test
  void theTextsOfAnEarlierVersionAreRead() {
    assertEquals("a/1@2,v/0@7,v/0@8", text(ParentState.read(HEX.parseHex(TEXTS))));
  }

  private static String text(ParentSet parents) {
    InternalRow lineage = MergedLineage.of(parents, 64);
    return lineage.getUTF8String(LineageStruct.PARENTS).toString();
  }
}
