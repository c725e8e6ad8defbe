package dev.headwater.rowlineage;

import static dev.headwater.rowlineage.Catalyst.java;
import static dev.headwater.rowlineage.Catalyst.seq;

import dev.headwater.compat.SparkSql;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.InsertStarAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateStarAction;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructField;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.Seq;

/**
 * `UPDATE SET *` and `INSERT *` of a MERGE whose table has a column for lineage that the source
 * does not have: the star stands for all other columns. Spark would refuse the statement, so that a
 * job with a star would end when its table gets the column.
 *
 * <p>Applied before Spark resolves the statement, which expands stars.
 */
final class MergeStars extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger("dev.headwater.rowlineage");

  private final SparkSession session;

  MergeStars(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (!(plan instanceof MergeIntoTable merge) || evolvesSchema(merge) || !hasStar(merge)) {
      return plan;
    }
    try {
      RowLineageConf conf = RowLineageConf.of(session.conf());
      return conf.enabled() && conf.mistakes().isEmpty() ? expanded(merge) : plan;
    } catch (Exception | LinkageError | StackOverflowError failed) {
      // Spark reports what is wrong with the statement.
      LOG.debug("row lineage", failed);
      return plan;
    }
  }

  /** The last parameter, which Spark 3.5 does not have. */
  private static boolean evolvesSchema(MergeIntoTable merge) {
    Object[] parameters = Catalyst.parameters(merge);
    return Boolean.TRUE.equals(parameters[parameters.length - 1]);
  }

  private static boolean hasStar(MergeIntoTable merge) {
    List<Object> actions = java(merge.matchedActions());
    actions.addAll(java(merge.notMatchedActions()));
    return actions.stream()
        .anyMatch(each -> each instanceof UpdateStarAction || each instanceof InsertStarAction);
  }

  private LogicalPlan expanded(MergeIntoTable merge) {
    LogicalPlan table = EliminateSubqueryAliases.apply(analyzed(merge.targetTable()));
    if (!(table instanceof DataSourceV2Relation relation)
        || !(relation.table() instanceof SupportsRowLevelOperations)) {
      return merge;
    }
    StructField field = StoredLineage.columnOf(table.schema());
    if (field == null) {
      return merge;
    }
    LogicalPlan source = analyzed(merge.sourceTable());
    if (named(source, field.name()) != null || !KafkaRelations.readsKafka(source)) {
      return merge;
    }
    List<Object> assignments = new ArrayList<>();
    for (Attribute column : Catalyst.<Attribute>java(table.output())) {
      if (!column.name().equals(field.name())) {
        Attribute value = named(source, column.name());
        if (value == null) {
          return merge;
        }
        assignments.add(new Assignment(UnresolvedAttribute.quoted(column.name()), value));
      }
    }
    Object[] parameters = Catalyst.parameters(merge);
    for (int i = 0; i < parameters.length; i++) {
      if (parameters[i] == merge.sourceTable()) {
        // Its columns keep the ids that the assignments have.
        parameters[i] = source;
      } else if (parameters[i] == merge.matchedActions()
          || parameters[i] == merge.notMatchedActions()) {
        parameters[i] = expanded((Seq<?>) parameters[i], assignments);
      }
    }
    return merge.makeCopy(parameters);
  }

  private static Seq<?> expanded(Seq<?> actions, List<Object> assignments) {
    List<Object> all = new ArrayList<>();
    for (Object each : Catalyst.<Object>java(actions)) {
      if (each instanceof UpdateStarAction update) {
        all.add(Catalyst.update(update.condition(), assignments));
      } else if (each instanceof InsertStarAction insert) {
        all.add(new InsertAction(insert.condition(), seq(assignments)));
      } else {
        all.add(each);
      }
    }
    return seq(all);
  }

  private LogicalPlan analyzed(LogicalPlan plan) {
    return plan.resolved() ? plan : SparkSql.sessionState(session).analyzer().execute(plan);
  }

  /** The only column of a name; null if there is none, or more than one. */
  private Attribute named(LogicalPlan plan, String name) {
    boolean exactly = SparkSql.sessionState(session).conf().caseSensitiveAnalysis();
    List<Attribute> found = java(plan.output());
    found.removeIf(
        each -> exactly ? !each.name().equals(name) : !each.name().equalsIgnoreCase(name));
    return found.size() == 1 ? found.get(0) : null;
  }
}
