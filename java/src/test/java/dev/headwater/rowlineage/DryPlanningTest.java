package dev.headwater.rowlineage;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.headwater.LocalSpark;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.api.python.PythonEvalType;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDAF;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import scala.collection.immutable.Seq;

/** Rewritten queries that Spark can't plan. */
class DryPlanningTest {
  private static final StructType SCHEMA =
      new StructType()
          .add("value", DataTypes.StringType)
          .add(LineageStruct.COLUMN, LineageStruct.TYPE);

  private final SparkSession session = LocalSpark.session();

  private LogicalPlan grouped(boolean withPython) {
    LogicalPlan rows = session.createDataFrame(List.of(), SCHEMA).queryExecution().analyzed();
    Attribute value = Catalyst.column(rows.output(), "value");
    List<Object> results = new ArrayList<>();
    results.add(value);
    Attribute lineage = Catalyst.attribute(LineageStruct.COLUMN, LineageStruct.TYPE);
    LogicalPlan child =
        new Project(
            Catalyst.added(
                Catalyst.seq(List.of(value)),
                Catalyst.inPlaceOf(lineage, LineageStruct.none(false))),
            rows);
    results.add(Catalyst.named(MergeParents.of(lineage), "lineage"));
    if (withPython) {
      Expression python =
          new PythonUDAF(
                  "mean",
                  null,
                  DataTypes.DoubleType,
                  Catalyst.seq(List.of(value)),
                  true,
                  PythonEvalType.SQL_GROUPED_AGG_PANDAS_UDF(),
                  NamedExpression.newExprId())
              .toAggregateExpression();
      results.add(Catalyst.named(python, "mean"));
    }
    return Catalyst.aggregate(List.of(value), results, child);
  }

  @Test
  void anAggregateInPythonIsNotPlannedTogetherWithAnother() {
    DryPlanning planning = new DryPlanning(session);
    assertTrue(DryPlanning.mayFail(grouped(true)));
    assertThrows(Exception.class, () -> planning.ofBatch(grouped(true)));
    assertDoesNotThrow(() -> planning.ofBatch(grouped(false)));
  }

  /** Stands for any step that can't be planned together with the column for lineage. */
  private static final class RefusesLineage extends SparkStrategy {
    private int refused;

    @Override
    public Seq<SparkPlan> apply(LogicalPlan plan) {
      if (plan instanceof Project && Catalyst.column(plan.output(), LineageStruct.COLUMN) != null) {
        refused++;
        throw new IllegalStateException("can't plan it");
      }
      return Catalyst.seq(List.of());
    }
  }

  @Test
  void aQueryThatCanNotBePlannedWithLineageRunsWithoutIt(@TempDir Path folder) throws Exception {
    Files.createDirectory(folder.resolve("in"));
    Files.writeString(folder.resolve("in/rows.json"), "{\"value\": \"a\"}\n{\"value\": \"b\"}\n");
    RefusesLineage strategy = new RefusesLineage();
    List<String> received = new ArrayList<>();
    VoidFunction2<Dataset<Row>, Long> write =
        (batch, number) -> batch.collectAsList().forEach(row -> received.add(row.toString()));
    session.experimental().extraStrategies_$eq(Catalyst.seq(List.of(strategy)));
    try {
      StreamingQuery query =
          session
              .readStream()
              .schema(SCHEMA)
              .json(folder.resolve("in").toString())
              .select("value")
              .writeStream()
              .foreachBatch(write)
              .option("checkpointLocation", folder.resolve("checkpoint").toString())
              .queryName("unplannable")
              .start();
      query.processAllAvailable();
      query.stop();
    } finally {
      session.experimental().extraStrategies_$eq(Catalyst.seq(List.of()));
    }
    assertEquals(List.of("[a]", "[b]"), received);
    String status = String.valueOf(RowLineageStatus.json("unplannable"));
    assertTrue(status.contains("\"off\"") && status.contains("can't plan it"), status);
    assertEquals(1, strategy.refused);
  }
}
