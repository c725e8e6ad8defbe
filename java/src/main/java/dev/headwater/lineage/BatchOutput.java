package dev.headwater.lineage;

import dev.headwater.compat.CollectionConverters;
import dev.headwater.rowlineage.OriginalPlan;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RowLevelWrite;
import org.apache.spark.sql.catalyst.plans.logical.V2CreateTableAsSelectPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;

/**
 * What one write of a batch writes to, and its rows.
 *
 * @param target a topic, or a table with its name or location
 * @param merged whether rows of the target are changed
 * @param rows as the job made them; null if the plan does not have them
 */
record BatchOutput(Map<String, Object> target, boolean merged, LogicalPlan rows) {
  private static final String KAFKA = "org.apache.spark.sql.kafka010.";
  private static final String DELTA = "org.apache.spark.sql.delta.";
  private static final String DELTA_MERGE = DELTA + "commands.MergeIntoCommand";

  /** The outputs of a command; none if it writes no rows. */
  static List<BatchOutput> of(LogicalPlan plan) {
    if (plan instanceof SaveIntoDataSourceCommand save) {
      return saved(save);
    }
    if (plan.getClass().getName().equals(DELTA_MERGE)) {
      return merged(plan);
    }
    List<BatchOutput> outputs = new ArrayList<>();
    LogicalPlan rows = rowsOf(plan);
    for (Object written : PlanTables.of(plan, true).written()) {
      Map<String, Object> target = new LinkedHashMap<>();
      for (String name : List.of("name", "provider", "location")) {
        target.put(name, ((Map<?, ?>) written).get(name));
      }
      outputs.add(new BatchOutput(target, plan instanceof RowLevelWrite, rows));
    }
    return outputs;
  }

  private static List<BatchOutput> saved(SaveIntoDataSourceCommand save) {
    Map<String, String> options = CollectionConverters.asJava(save.options());
    LogicalPlan rows = OriginalPlan.of(save.query());
    String source = save.dataSource().getClass().getName();
    if (source.startsWith(KAFKA) && options.containsKey("topic")) {
      String servers = options.getOrDefault("kafka.bootstrap.servers", "");
      Map<String, Object> topic = Map.of("topic", options.get("topic").trim(), "servers", servers);
      return List.of(new BatchOutput(topic, false, rows));
    }
    if (source.startsWith(DELTA) && options.containsKey("path")) {
      return List.of(new BatchOutput(delta(options.get("path")), false, rows));
    }
    return List.of();
  }

  /** Delta's MERGE: a command without children, whose first two parameters are plans. */
  private static List<BatchOutput> merged(LogicalPlan merge) {
    if (merge.productElement(0) instanceof LogicalPlan source
        && merge.productElement(1) instanceof LogicalPlan target) {
      for (LogicalPlan leaf : CollectionConverters.asJava(target.collectLeaves())) {
        if (leaf instanceof LogicalRelation relation
            && relation.relation() instanceof HadoopFsRelation files) {
          String folder =
              CollectionConverters.asJava(files.location().rootPaths()).get(0).toString();
          return List.of(new BatchOutput(delta(folder), true, source));
        }
      }
    }
    return List.of();
  }

  private static Map<String, Object> delta(String folder) {
    return Map.of("provider", "delta", "location", folder);
  }

  private static LogicalPlan rowsOf(LogicalPlan plan) {
    if (plan instanceof V2WriteCommand write) {
      return OriginalPlan.of(write.query());
    }
    if (plan instanceof InsertIntoHadoopFsRelationCommand files) {
      return OriginalPlan.of(files.query());
    }
    return plan instanceof V2CreateTableAsSelectPlan create ? create.query() : null;
  }
}
