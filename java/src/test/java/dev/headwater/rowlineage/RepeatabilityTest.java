package dev.headwater.rowlineage;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.headwater.LocalSpark;
import dev.headwater.delivery.ExactlyOnceException;
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
