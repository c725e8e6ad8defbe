package dev.headwater.isolation;

import static dev.headwater.compat.CollectionConverters.asJava;
import static dev.headwater.compat.CollectionConverters.asScala;

import dev.headwater.compat.SparkSql;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.CollectMetrics;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import scala.Option;

/**
 * The rows of a streaming query with another source: the same stream without some records, or a
 * batch of its records. Everything above the source stays as it is.
 */
public final class StreamPlan {
  // Operators whose rows depend on several input records, in this batch or in their state.
  private static final Pattern COMBINING =
      Pattern.compile(
          "^(Aggregate|Distinct|Offset|Tail|Intersect|Except)$|^(Deduplicate|Window)"
              + "|^TransformWithState|Limit$|MapGroups|CoGroup");
  private static final String KAFKA = "kafka";

  private StreamPlan() {}

  /** The streaming operators by which a row depends on several input records. */
  public static List<String> combining(Dataset<Row> rows) {
    List<String> found = new ArrayList<>();
    addCombining(rows.queryExecution().analyzed(), found);
    return found;
  }

  private static void addCombining(LogicalPlan plan, List<String> found) {
    if (!plan.isStreaming()) {
      return;
    }
    List<LogicalPlan> children = asJava(plan.children());
    children.forEach(child -> addCombining(child, found));
    boolean joinsStreams =
        plan instanceof Join && children.stream().allMatch(LogicalPlan::isStreaming);
    if (joinsStreams || COMBINING.matcher(plan.nodeName()).find()) {
      found.add(plan.nodeName());
    }
  }

  /** The names of the streaming sources, such as {@code kafka}, one for each leaf. */
  public static List<String> sources(Dataset<Row> rows) {
    List<String> names = new ArrayList<>();
    for (LogicalPlan leaf : asJava(rows.queryExecution().analyzed().collectLeaves())) {
      if (leaf instanceof StreamingRelationV2 relation) {
        names.add(relation.sourceName());
      } else if (leaf.isStreaming()) {
        names.add(leaf.nodeName());
      }
    }
    return names;
  }

  /** The options of the Kafka source, in Spark's spelling. */
  public static Map<String, String> options(Dataset<Row> rows) {
    for (LogicalPlan leaf : asJava(rows.queryExecution().analyzed().collectLeaves())) {
      if (isKafka(leaf)) {
        return ((StreamingRelationV2) leaf).extraOptions().asCaseSensitiveMap();
      }
    }
    return Map.of();
  }

  /** The stream with those records only for which the condition is true. */
  public static Dataset<Row> where(Dataset<Row> rows, Column condition) {
    return withSource(rows, leaf -> dataset(rows, leaf).filter(condition), false);
  }

  /** The rows that are made from the records of a batch DataFrame instead of the stream. */
  public static Dataset<Row> ofBatch(Dataset<Row> rows, Dataset<Row> records) {
    return withSource(rows, leaf -> named(records, leaf), true);
  }

  private interface Source {
    Dataset<Row> of(LogicalPlan leaf);
  }

  private static Dataset<Row> withSource(Dataset<Row> rows, Source source, boolean isBatch) {
    return dataset(rows, replaced(rows.queryExecution().analyzed(), source, isBatch));
  }

  private static LogicalPlan replaced(LogicalPlan plan, Source source, boolean isBatch) {
    if (isKafka(plan)) {
      return source.of(plan).queryExecution().analyzed();
    }
    if (isBatch && plan instanceof CollectMetrics metrics) {
      // What a batch measures here is not what the query writes.
      return replaced(metrics.child(), source, true);
    }
    return plan.mapChildren(child -> replaced(child, source, isBatch));
  }

  private static boolean isKafka(LogicalPlan plan) {
    return plan instanceof StreamingRelationV2 relation && KAFKA.equals(relation.sourceName());
  }

  /** The records with the columns of the stream: operators refer to them by id. */
  private static Dataset<Row> named(Dataset<Row> records, LogicalPlan stream) {
    LogicalPlan batch = records.queryExecution().analyzed();
    Map<String, Attribute> columns = new HashMap<>();
    asJava(batch.output()).forEach(each -> columns.put(each.name(), each));
    List<NamedExpression> named = new ArrayList<>();
    for (Attribute each : asJava(stream.output())) {
      Attribute column = columns.get(each.name());
      named.add(
          new Alias(
              column,
              each.name(),
              each.exprId(),
              each.qualifier(),
              Option.empty(),
              asScala(List.of())));
    }
    return dataset(records, new Project(asScala(named), batch));
  }

  private static Dataset<Row> dataset(Dataset<Row> of, LogicalPlan plan) {
    return SparkSql.ofRows(of.sparkSession(), plan);
  }
}
