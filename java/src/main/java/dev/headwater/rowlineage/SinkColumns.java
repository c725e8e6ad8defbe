package dev.headwater.rowlineage;

import static dev.headwater.rowlineage.Catalyst.java;
import static dev.headwater.rowlineage.Catalyst.seq;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.Seq;

/** The columns that a sink gets: those of the job, and the lineage in the form that it takes. */
final class SinkColumns {
  private static final DataType ERROR_TYPE =
      new StructType().add("kind", DataTypes.StringType).add("message", DataTypes.StringType);

  private SinkColumns() {}

  /** For Headwater's sink, which reads columns by position: the order is that of `TaskWriter`. */
  static LogicalPlan forLineageSink(PlanRewriter.Rows rows, Seq<Attribute> columns) {
    List<Object> all = new ArrayList<>();
    all.add(optional(columns, "topic", DataTypes.StringType));
    all.add(optional(columns, "key", DataTypes.BinaryType));
    all.add(optional(columns, "value", DataTypes.BinaryType));
    all.add(Catalyst.named(LineageStruct.withoutOrdinal(rows.lineage()), "lineage"));
    all.add(Catalyst.named(LineageStruct.ordinal(rows.lineage()), "ordinal"));
    all.add(Catalyst.named(Catalyst.nothing(ERROR_TYPE), "error"));
    all.add(optional(columns, "partition", DataTypes.IntegerType));
    all.add(optional(columns, "headers", LineageStruct.HEADERS_TYPE));
    return new Project(seq(all), rows.plan());
  }

  private static Expression optional(Seq<Attribute> columns, String name, DataType type) {
    Attribute column = Catalyst.column(columns, name);
    return Catalyst.named(
        column == null ? Catalyst.nothing(type) : Catalyst.cast(column, type), name);
  }

  /** For Spark's own Kafka sink: one more header. */
  static LogicalPlan withHeader(PlanRewriter.Rows rows, Seq<Attribute> columns, QueryRun run) {
    Attribute own = Catalyst.column(columns, "headers");
    Expression headers =
        Catalyst.call(
            LineageFunctions.class,
            "headers",
            LineageStruct.HEADERS_TYPE,
            true,
            own == null ? Catalyst.nothing(LineageStruct.HEADERS_TYPE) : own,
            rows.lineage(),
            Catalyst.text(run.name()),
            Catalyst.text(run.runId()));
    List<Object> all = new ArrayList<>();
    for (Attribute each : Catalyst.<Attribute>java(columns)) {
      if (each != own) {
        all.add(each);
      }
    }
    all.add(Catalyst.named(headers, "headers"));
    return new Project(seq(all), rows.plan());
  }

  /** For foreachBatch: hidden from the job by {@link HiddenColumn}. */
  static LogicalPlan withHiddenColumn(
      PlanRewriter.Rows rows, Seq<Attribute> columns, QueryRun run) {
    List<Object> all = java(columns);
    all.add(Catalyst.named(rows.lineage(), LineageStruct.COLUMN, Option.apply(run.metadata())));
    return new Project(seq(all), rows.plan());
  }
}
