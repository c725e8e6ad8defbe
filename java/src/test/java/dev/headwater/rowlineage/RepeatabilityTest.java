package dev.headwater.rowlineage;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.headwater.LocalSpark;
import dev.headwater.delivery.ExactlyOnceException;
import dev.headwater.delivery.RecognizedBy;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Which queries can be repeated, and by what their rows are recognized. */
class RepeatabilityTest {
  @BeforeAll
  static void topics() {
    for (String topic : new String[] {"visits", "ads"}) {
      LocalSpark.run(
          "CREATE OR REPLACE TEMPORARY VIEW "
              + topic
              + " USING kafka OPTIONS (kafka.bootstrap.servers 'localhost:1', subscribe '"
              + topic
              + "')");
    }
    // Sources of which the topics are known, with words.
    for (String topic : new String[] {"a", "b", "c"}) {
      LocalSpark.session()
          .readStream()
          .format("kafka")
          .option("kafka.bootstrap.servers", "localhost:1")
          .option("subscribe", topic)
          .load()
          .selectExpr("key", "value", "split(value, ' ') words")
          .createOrReplaceTempView("stream_" + topic);
    }
  }

  private static boolean needsContent(String sql) {
    return new Repeatability(true).needsContent(LocalSpark.analyzed(sql));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "SELECT upper(value), current_timestamp() FROM visits WHERE key IS NOT NULL",
        "SELECT explode(split(value, ' ')) FROM visits",
        "SELECT value FROM visits UNION ALL SELECT key FROM visits",
        "SELECT v.value FROM visits v LEFT SEMI JOIN ads a ON a.key = v.key",
        "SELECT key, sort_array(collect_set(value)) FROM visits GROUP BY key",
        "SELECT key, sum(1.5D * length(value)) FROM visits GROUP BY key",
        "SELECT DISTINCT key FROM visits",
      })
  void parentsIdentifyRows(String sql) {
    assertEquals(false, needsContent(sql));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "SELECT stack(2, key, value) FROM visits",
        "SELECT value FROM visits JOIN VALUES (1), (2)",
        "SELECT a.value FROM visits a JOIN visits b ON a.key = b.key",
        "SELECT value FROM visits UNION ALL VALUES (X'00')",
        "SELECT word, count(*) FROM (SELECT explode(split(value, ' ')) word FROM visits) GROUP BY"
            + " 1",
        "SELECT key, topic, count(*), max(1.5D * offset) FROM visits GROUP BY ROLLUP (key, topic)",
      })
  void otherRowsMayHaveTheSameParents(String sql) {
    assertTrue(needsContent(sql));
  }

  private static String exploded(String rows) {
    return "(SELECT key, words, explode(words) word FROM " + rows + ")";
  }

  private static String joined(String left, String right) {
    return "(SELECT l.key, l.words FROM " + left + " l JOIN " + right + " r ON l.key = r.key)";
  }

  private static boolean collides(String rows) {
    return needsContent("SELECT key FROM " + rows);
  }

  @Test
  void numbersOfRowsDoNotOverlapUpToThreePositions() {
    String one = exploded("stream_a");
    assertEquals(false, collides(exploded(exploded(one))));
    assertTrue(collides(exploded(exploded(exploded(one)))));
    assertEquals(false, collides(joined(joined(one, exploded("stream_b")), "stream_c")));
    assertEquals(false, collides(joined("stream_c", joined(one, exploded("stream_b")))));
    // Without a number on the left, nothing is added.
    assertEquals(false, collides(joined("stream_c", exploded(exploded(one)))));
    assertTrue(collides(exploded(joined(joined(one, "stream_b"), "stream_c"))));
    assertTrue(
        collides("(" + exploded(exploded(one)) + " UNION ALL " + exploded("stream_a") + ")"));
  }

  @Test
  void aRightSideWithTwoPositionsOverlapsWithTheLeftOne() {
    String right = joined(exploded("stream_b"), "stream_c");
    assertTrue(collides(joined(exploded("stream_a"), right)));
    assertEquals(false, collides(joined("stream_a", right)));
  }

  private static RecognizedBy recognizedBy(String columns) {
    String rows = "SELECT value, " + columns + " FROM visits JOIN VALUES (1), (2)";
    return new Repeatability(true).recognizedBy(LocalSpark.analyzed(rows));
  }

  @Test
  void aPartitionThatIsNeverNullIsPartOfTheContent() {
    assertEquals(RecognizedBy.CONTENT, recognizedBy("key"));
    assertEquals(
        RecognizedBy.CONTENT_AND_PARTITION, recognizedBy("coalesce(partition, 0) partition"));
    assertThrows(ExactlyOnceException.class, () -> recognizedBy("partition"));
    var unique = LocalSpark.analyzed("SELECT value, partition FROM visits");
    assertEquals(RecognizedBy.PARENTS, new Repeatability(true).recognizedBy(unique));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "SELECT uuid() FROM visits",
        "SELECT value FROM visits WHERE rand() < 0.5",
        "SELECT value FROM visits LIMIT 3",
        "SELECT value FROM visits TABLESAMPLE (10 PERCENT)",
        "SELECT word, first(value) FROM (SELECT explode(split(value, ' ')) word, value FROM visits)"
            + " GROUP BY 1",
        "SELECT word, sum(1.5D * length(value)) FROM (SELECT explode(split(value, ' ')) word,"
            + " value FROM visits) GROUP BY 1",
        "SELECT explode(list) FROM (SELECT key, collect_list(value) list FROM visits GROUP BY key)",
      })
  void rowsThatMayDifferAreRefused(String sql) {
    assertThrows(ExactlyOnceException.class, () -> needsContent(sql));
  }

  @Test
  void whichRowOfDuplicatesIsKeptDependsOnTheClusterOnly() {
    var plan = LocalSpark.deduplicated("SELECT key, value FROM visits", "key");
    assertEquals(false, new Repeatability(true).needsContent(plan));
    assertThrows(ExactlyOnceException.class, () -> new Repeatability(false).needsContent(plan));
  }

  @Test
  void theStepAfterWhichParentsAreSharedIsNamedAndNothingIsRefused() {
    String words = "(SELECT explode(split(value, ' ')) word FROM visits)";
    assertEquals(
        "Aggregate of rows with common parents",
        sharedBy("SELECT word, count(*) FROM " + words + " GROUP BY 1"));
    assertEquals("stack", sharedBy("SELECT stack(2, key, value) FROM visits"));
    assertEquals(
        "Join with rows that are not from Kafka",
        sharedBy("SELECT value FROM visits JOIN VALUES (1), (2)"));
    assertEquals(
        "Join of records with themselves",
        sharedBy("SELECT a.value FROM visits a JOIN visits b ON a.key = b.key"));
    assertNull(sharedBy("SELECT uuid() FROM visits WHERE rand() < 0.5 LIMIT 3"));
    assertNull(sharedBy("SELECT word FROM " + words));
  }

  private static String sharedBy(String sql) {
    return Repeatability.sharedBy(LocalSpark.analyzed(sql));
  }
}
