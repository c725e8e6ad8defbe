package dev.headwater.rowlineage;

import java.util.UUID;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import scala.collection.immutable.Seq;

/** Writes of a batch, such as in foreachBatch. */
final class BatchWrites {
  // Set by Spark while it runs a micro-batch.
  private static final String BATCH_ID = "streaming.sql.batchId";

  private final SparkSession session;

  BatchWrites(SparkSession session) {
    this.session = session;
  }

  static boolean isWrite(LogicalPlan plan) {
    return plan instanceof SaveIntoDataSourceCommand;
  }

  LogicalPlan rewrite(LogicalPlan plan) {
    RowLineageConf conf = RowLineageConf.of(session.conf());
    String name = session.sparkContext().appName();
    if (!conf.enabledFor(name)) {
      return plan;
    }
    SaveIntoDataSourceCommand write = (SaveIntoDataSourceCommand) plan;
    if (!KafkaRelations.isOfConnector(write.dataSource())) {
      return plan;
    }
    PlanRewriter rewriter = new PlanRewriter(this::isCached, conf.readsHeaders());
    PlanRewriter.Rows rows = rewriter.rewrite(write.query());
    if (!rows.haveLineage()) {
      return plan;
    }
    Seq<Attribute> columns = write.query().output();
    String batch = session.sparkContext().getLocalProperty(BATCH_ID);
    String runId = UUID.randomUUID().toString();
    LogicalPlan query = SinkColumns.withHeader(rows, columns, runId, batch);
    session.sessionState().analyzer().checkAnalysis(query);
    return new SaveIntoDataSourceCommand(
        query, write.dataSource(), write.options(), write.mode());
  }

  private boolean isCached(LogicalPlan plan) {
    return session.sharedState().cacheManager().lookupCachedData(session, plan).isDefined();
  }
}
