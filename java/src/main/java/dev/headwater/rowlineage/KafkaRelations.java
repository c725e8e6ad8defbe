package dev.headwater.rowlineage;

import static dev.headwater.rowlineage.Catalyst.added;

import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Leaves of a plan that read Kafka. */
final class KafkaRelations {
  private static final String PACKAGE = "org.apache.spark.sql.kafka010.";
  private static final String HEADERS = "headers";
  // Stands for topics that are not named, such as by a pattern.
  private static final String ANY = "*";

  private KafkaRelations() {}

  static boolean isKafka(LogicalPlan plan) {
    if (plan instanceof StreamingRelationV2 stream) {
      return "kafka".equals(stream.sourceName());
    }
    if (plan instanceof DataSourceV2Relation relation) {
      return isOfConnector(relation.table());
    }
    return plan instanceof LogicalRelation relation && isOfConnector(relation.relation());
  }

  /** Whether an object is of Spark's Kafka connector. */
  static boolean isOfConnector(Object object) {
    return object.getClass().getName().startsWith(PACKAGE);
  }

  /** Whether rows of the plan may come from Kafka, or have lineage already. */
  static boolean readsKafka(LogicalPlan plan) {
    return plan.exists(node -> hasRecords(node) || Subqueries.readKafka(node));
  }

  private static boolean hasRecords(LogicalPlan node) {
    return Catalyst.children(node).isEmpty()
        && (isKafka(node)
            || Catalyst.column(node.output(), LineageStruct.COLUMN) != null
            || ReceivedRows.of(node) != null);
  }

  /** Whether a record may be read by two of the plans. */
  static boolean mayShareRecords(List<LogicalPlan> plans) {
    Set<String> seen = new HashSet<>();
    for (LogicalPlan plan : plans) {
      Set<String> topics = new HashSet<>();
      Catalyst.<LogicalPlan>java(plan.collectLeaves())
          .forEach(leaf -> topics.addAll(topicsOf(leaf)));
      boolean any = topics.contains(ANY) && !seen.isEmpty() || seen.contains(ANY);
      if (any && !topics.isEmpty() || topics.stream().anyMatch(seen::contains)) {
        return true;
      }
      seen.addAll(topics);
    }
    return false;
  }

  /** The options of the first Kafka source of a streaming query. */
  static Map<String, String> optionsOf(LogicalPlan plan) {
    for (LogicalPlan leaf : Catalyst.<LogicalPlan>java(plan.collectLeaves())) {
      if (leaf instanceof StreamingRelationV2 stream && isKafka(leaf)) {
        return stream.extraOptions().asCaseSensitiveMap();
      }
    }
    return Map.of();
  }

  private static Set<String> topicsOf(LogicalPlan leaf) {
    if (leaf instanceof StreamingRelationV2 stream && isKafka(leaf)) {
      String topics = stream.extraOptions().get("subscribe");
      return topics == null
          ? Set.of(ANY)
          : new HashSet<>(Arrays.stream(topics.split(",")).map(String::trim).toList());
    }
    return readsKafka(leaf) ? Set.of(ANY) : Set.of();
  }

  /** The same source with the headers of the records, which the job does not read. */
  static LogicalPlan withHeaders(LogicalPlan plan) {
    if (!(plan instanceof StreamingRelationV2 stream)
        || stream.source().isEmpty()
        || Catalyst.column(plan.output(), HEADERS) != null) {
      return plan;
    }
    Map<String, String> options = new HashMap<>(stream.extraOptions().asCaseSensitiveMap());
    options.keySet().removeIf(name -> name.toLowerCase(Locale.ROOT).equals("includeheaders"));
    options.put("includeHeaders", "true");
    Table table = newProvider(stream).getTable(null, new Transform[0], options);
    return Catalyst.replaced(
        stream,
        stream.table(),
        table,
        stream.extraOptions(),
        new CaseInsensitiveStringMap(options),
        stream.output(),
        added(stream.output(), Catalyst.attribute(HEADERS, LineageStruct.HEADERS_TYPE)));
  }

  /** Another instance: one that has created its table returns the same table again. */
  private static TableProvider newProvider(StreamingRelationV2 stream) {
    try {
      return stream.source().get().getClass().getDeclaredConstructor().newInstance();
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("can't create another Kafka source", error);
    }
  }
}
