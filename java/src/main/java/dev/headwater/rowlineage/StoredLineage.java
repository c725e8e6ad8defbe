package dev.headwater.rowlineage;

import static dev.headwater.rowlineage.Catalyst.seq;
import static dev.headwater.rowlineage.Catalyst.text;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The lineage of a row in a table that has a column for it: `lineage` or `_lineage`, as the struct
 * of `storage/tables/contract.py`, an array of addresses, or a text.
 */
final class StoredLineage {
  private static final List<String> NAMES = List.of("lineage", "_lineage");

  /** The fields of `storage/tables/contract.py`. */
  static final StructType TYPE =
      new StructType()
          .add("topic", DataTypes.StringType)
          .add("partition", DataTypes.IntegerType)
          .add("offset", DataTypes.LongType)
          .add("parents", DataTypes.createArrayType(DataTypes.StringType))
          .add("record_id", DataTypes.StringType)
          .add("job_name", DataTypes.StringType)
          .add("job_version", DataTypes.StringType)
          .add("batch_version", DataTypes.LongType)
          .add("run_id", DataTypes.StringType);

  private final QueryRun run;
  private final String jobVersion;

  StoredLineage(QueryRun run, String jobVersion) {
    this.run = run;
    this.jobVersion = jobVersion;
  }

  /**
   * The rows with the column, in the order of the table where the job's rows have all other
   * columns; null if the table has no such column, or the job writes one itself.
   */
  LogicalPlan withColumn(PlanRewriter.Rows rows, LogicalPlan query, StructType table) {
    StructField field = columnOf(table);
    if (field == null || writesItself(query, field.name())) {
      return null;
    }
    Expression lineage = expression(rows.lineage(), field.dataType());
    if (lineage == null) {
      return null;
    }
    List<NamedExpression> columns = new ArrayList<>();
    boolean added = false;
    for (Attribute each : Catalyst.<Attribute>java(query.output())) {
      if (each.name().equals(field.name())) {
        columns.add(Catalyst.inPlaceOf(each, lineage));
        added = true;
      } else {
        columns.add(each);
      }
    }
    if (!added) {
      int position = table.fieldIndex(field.name());
      boolean complete = columns.size() == table.length() - 1;
      columns.add(complete ? position : columns.size(), Catalyst.named(lineage, field.name()));
    }
    return new Project(seq(columns), rows.plan());
  }

  /** The column of a table for lineage, or null. */
  static StructField columnOf(StructType table) {
    for (StructField field : table.fields()) {
      if (NAMES.contains(field.name())) {
        return field;
      }
    }
    return null;
  }

  /** Spark adds a null for a column of the table that the rows don't have. */
  private static boolean writesItself(LogicalPlan query, String name) {
    if (Catalyst.column(query.output(), name) == null) {
      return false;
    }
    if (!(query instanceof Project project)) {
      return true;
    }
    for (NamedExpression each : Catalyst.<NamedExpression>java(project.projectList())) {
      if (each.name().equals(name) && each instanceof Alias alias) {
        return !isNull(alias);
      }
    }
    return true;
  }

  /** Without what Spark adds when it fits a value to the column of a table. */
  static Expression bare(Expression value) {
    if (value instanceof Alias alias) {
      return bare(alias.child());
    }
    return value instanceof Cast cast ? bare(cast.child()) : value;
  }

  static boolean isNull(Expression value) {
    return bare(value) instanceof Literal literal && literal.value() == null;
  }

  /** The lineage in the type of a column; null if it is none of the types. */
  Expression expression(Expression lineage, DataType type) {
    if (type.sameType(DataTypes.StringType)) {
      return call("parentsText", type, lineage);
    }
    if (type.sameType(DataTypes.createArrayType(DataTypes.StringType))) {
      return call("parentsArray", type, lineage);
    }
    if (type.sameType(TYPE)) {
      return call("stored", TYPE, lineage, text(run.name()), text(jobVersion), text(run.runId()));
    }
    return null;
  }

  private static Expression call(String method, DataType type, Expression... values) {
    return Catalyst.call(LineageFunctions.class, method, type, true, values);
  }
}
