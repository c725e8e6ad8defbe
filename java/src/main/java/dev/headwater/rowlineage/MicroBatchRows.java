package dev.headwater.rowlineage;

import static dev.headwater.rowlineage.Catalyst.java;
import static dev.headwater.rowlineage.Catalyst.seq;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.LogicalRDD;
import scala.runtime.AbstractPartialFunction;

/** The rows that foreachBatch receives: Spark passes them as an RDD, without the query's plan. */
public final class MicroBatchRows {
  private MicroBatchRows() {}

  /**
   * The plan of a write in foreachBatch down to the sources of its streaming query.
   *
   * @param write the rows that are written
   * @param stream the plan of the streaming query
   */
  public static LogicalPlan withSources(LogicalPlan write, LogicalPlan stream) {
    List<Attribute> made = java(stream.output());
    return write.transformUp(
        new AbstractPartialFunction<>() {
          @Override
          public boolean isDefinedAt(LogicalPlan node) {
            return node instanceof LogicalRDD && names(shown(node)).equals(names(made));
          }

          @Override
          public LogicalPlan apply(LogicalPlan node) {
            List<Attribute> received = shown(node);
            List<Object> columns = new ArrayList<>();
            for (int at = 0; at < made.size(); at++) {
              columns.add(Catalyst.inPlaceOf(received.get(at), made.get(at)));
            }
            return new Project(seq(columns), stream);
          }
        });
  }

  private static List<Attribute> shown(LogicalPlan rows) {
    List<Attribute> columns = java(rows.output());
    columns.removeIf(each -> each.name().equals(LineageStruct.COLUMN));
    return columns;
  }

  private static List<String> names(List<Attribute> columns) {
    return columns.stream().map(Attribute::name).toList();
  }
}
