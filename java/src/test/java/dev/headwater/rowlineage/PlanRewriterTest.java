package dev.headwater.rowlineage;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.headwater.LocalSpark;
import dev.headwater.compat.StreamExecutions;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What is known of the parents of rows, and the lineage in the state of joins. */
class PlanRewriterTest {
  @BeforeAll
  static void topics() {
    for (String topic : new String[] {"visits", "ads"}) {
      LocalSpark.run(
          "CREATE OR REPLACE TEMPORARY VIEW "
              + topic
              + " USING kafka OPTIONS (kafka.bootstrap.servers 'localhost:1', subscribe '"
              + topic
              + "')");
      stream(topic).createOrReplaceTempView(topic + "_stream");
    }
  }

  private static Dataset<Row> stream(String topic) {
    return LocalSpark.session()
        .readStream()
        .format("kafka")
        .option("kafka.bootstrap.servers", "localhost:1")
        .option("subscribe", topic)
        .load();
  }

  private static String kindOf(String sql) {
    PlanRewriter rewriter = new PlanRewriter(each -> false, false);
    assertTrue(rewriter.rewrite(LocalSpark.analyzed(sql)).haveLineage());
    return rewriter.coverage().kind() + rewriter.coverage().steps();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "SELECT value, (SELECT max(value) FROM ads) FROM visits",
        "SELECT value, EXISTS (SELECT 1 FROM ads WHERE ads.key = visits.key) FROM visits",
        "SELECT max((SELECT max(value) FROM ads)) FROM visits GROUP BY key",
        "SELECT id, (SELECT max(value) FROM ads) FROM range(3)",
        "SELECT value, (SELECT max(id + (SELECT max(offset) FROM ads)) FROM range(3)) FROM visits",
        "WITH top AS (SELECT max(value) AS v FROM ads) SELECT value, (SELECT v FROM top) FROM"
            + " visits",
        "SELECT * FROM visits v, LATERAL (SELECT max(a.value) FROM ads a WHERE a.key = v.key)",
        "SELECT value, (SELECT max(value) FROM ads) FROM visits_stream",
      })
  void valuesOfASubqueryThatReadsKafkaHaveUnknownParents(String sql) {
    assertEquals("unknown[subquery]", kindOf(sql));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "SELECT value FROM visits WHERE key IN (SELECT key FROM ads)",
        "SELECT value FROM visits WHERE offset > (SELECT max(offset) FROM ads)",
        "SELECT value, (SELECT max(id) FROM range(3)) FROM visits",
        "SELECT * FROM visits v, LATERAL (SELECT length(v.value) AS size)",
      })
  void subqueriesThatOnlyDecideOrReadOtherTablesChangeNothing(String sql) {
    assertEquals("exact[]", kindOf(sql));
  }

  private static List<StructType> inState(String left, String how) {
    LogicalPlan query =
        LocalSpark.session()
            .sql(
                "SELECT l.value FROM ("
                    + left
                    + ") l "
                    + how
                    + " JOIN (SELECT key, timestamp AS u FROM ads_stream) r"
                    + " ON l.key = r.key AND l.t = r.u")
            .queryExecution()
            .analyzed();
    PlanRewriter.Rows rows = new PlanRewriter(each -> false, false).rewrite(query);
    LogicalPlan written = SinkColumns.forLineageSink(rows, query.output());
    LogicalPlan planned =
        StreamExecutions.of(LocalSpark.session(), written, OutputMode.Append()).optimizedPlan();
    List<StructType> found = new ArrayList<>();
    Join join = joinOf(planned);
    for (LogicalPlan side : List.of(join.left(), join.right())) {
      Attribute lineage = Catalyst.column(side.output(), LineageStruct.COLUMN);
      if (lineage != null) {
        assertTrue(lineage.nullable());
        found.add((StructType) lineage.dataType());
      }
    }
    return found;
  }

  private static Join joinOf(LogicalPlan plan) {
    return plan instanceof Join join ? join : joinOf(Catalyst.children(plan).get(0));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "SELECT key, value, timestamp AS t FROM visits_stream",
        "SELECT key, explode(array(value)) AS value, timestamp AS t FROM visits_stream",
        "SELECT key, value, timestamp AS t FROM visits_stream UNION ALL"
            + " SELECT value, key, timestamp FROM visits_stream",
      })
  void theStateOfAJoinHasTheSameFieldsWhateverIsBeforeIt(String left) {
    StructType expected = LineageStruct.NUMBERED_TYPE;
    assertEquals(List.of(expected, expected), inState(left, "INNER"));
    assertEquals(List.of(expected, expected), inState(left, "LEFT OUTER"));
    assertEquals(List.of(expected), inState(left, "LEFT SEMI"));
  }

  @Test
  void rowsThatTheJobHasPersistedHaveUnknownParents() {
    StructType schema =
        new StructType().add("value", "string").add(LineageStruct.COLUMN, LineageStruct.TYPE);
    Dataset<Row> rows =
        LocalSpark.session().createDataFrame(List.of(), schema).selectExpr("upper(value) AS v");
    assertEquals("exact", RowLineage.withRowLineage(rows.where("v <> ''")).kind());
    rows.persist();
    try {
      RowLineage.Result found = RowLineage.withRowLineage(rows.where("v <> ''"));
      assertEquals(List.of("persist"), found.steps());
      assertEquals("unknown", found.kind());
    } finally {
      rows.unpersist();
    }
  }
}
