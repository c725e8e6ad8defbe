package dev.headwater.rowlineage;

import dev.headwater.compat.SparkSql;
import java.util.UUID;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import org.apache.spark.sql.types.StructType;

/** Writes of a batch, such as in foreachBatch. */
final class BatchWrites {
  private final SparkSession session;
  private final RowLineageConf conf;
  private QueryRun run;
  private RowLineageStatus status;

  BatchWrites(SparkSession session) {
    this.session = session;
    this.run = new QueryRun(session.sparkContext().appName(), UUID.randomUUID().toString());
    this.conf = RowLineageConf.of(session.conf());
  }

  static boolean isWrite(LogicalPlan plan) {
    return plan instanceof SaveIntoDataSourceCommand
        || plan instanceof AppendData append && tableOf(append).resolved()
        || DeltaMerge.isMerge(plan)
        || RowLevelMerge.isMerge(plan);
  }

  /** The name of the query whose micro-batch is written, else of the application. */
  static String nameOf(LogicalPlan write, SparkSession session) {
    for (LogicalPlan leaf : Catalyst.<LogicalPlan>java(rowsOf(write).collectLeaves())) {
      Attribute hidden = Catalyst.column(leaf.output(), LineageStruct.COLUMN);
      QueryRun query = hidden == null ? null : QueryRun.of(hidden.metadata());
      ReceivedRows.Origin lost = ReceivedRows.of(leaf);
      if (query != null || lost != null) {
        return query == null ? lost.query().name() : query.name();
      }
    }
    return session.sparkContext().appName();
  }

  private static LogicalPlan rowsOf(LogicalPlan write) {
    if (write instanceof SaveIntoDataSourceCommand save) {
      return save.query();
    }
    return write instanceof V2WriteCommand command ? command.query() : write;
  }

  LogicalPlan rewrite(LogicalPlan plan) {
    if (!conf.enabledFor(run.name())) {
      return plan;
    }
    if (RowLevelMerge.isMerge(plan)) {
      return merged(new RowLevelMerge((V2WriteCommand) plan), plan);
    }
    if (plan instanceof AppendData append) {
      return appended(append);
    }
    if (DeltaMerge.isMerge(plan)) {
      return merged(new DeltaMerge(plan), plan);
    }
    SaveIntoDataSourceCommand write = (SaveIntoDataSourceCommand) plan;
    LogicalPlan query = saved(write);
    if (query == null) {
      return plan;
    }
    check(query);
    OriginalPlan.keep(write.query(), query);
    return new SaveIntoDataSourceCommand(query, write.dataSource(), write.options(), write.mode());
  }

  private LogicalPlan saved(SaveIntoDataSourceCommand write) {
    boolean isKafka = KafkaRelations.isOfConnector(write.dataSource());
    StructType table = null;
    if (!isKafka) {
      String folder = Catalyst.java(write.options()).get("path");
      if (folder == null || !Tables.isDelta(write.dataSource())) {
        return null;
      }
      table = Tables.ofDelta(folder, session);
      if (table == null) {
        return null;
      }
    }
    PlanRewriter.Rows rows = rewritten(write.query());
    if (!rows.haveLineage()) {
      return null;
    }
    if (!isKafka) {
      return stored().withColumn(rows, write.query(), table);
    }
    conf.runs().write(run, status, Catalyst.java(write.options()));
    return SinkColumns.withHeader(rows, write.query().output(), run);
  }

  private LogicalPlan appended(AppendData append) {
    PlanRewriter.Rows rows = rewritten(append.query());
    if (!rows.haveLineage()) {
      return append;
    }
    LogicalPlan query = stored().withColumn(rows, append.query(), tableOf(append).schema());
    if (query == null) {
      return append;
    }
    check(query);
    return append.withNewQuery(OriginalPlan.keep(append.query(), query));
  }

  private LogicalPlan merged(RowLevelMerge merge, LogicalPlan plan) {
    PlanRewriter.Rows rows = rewritten(merge.rows());
    LogicalPlan changed = rows.haveLineage() ? merge.with(rows, stored()) : null;
    if (changed == null) {
      return plan;
    }
    check(((V2WriteCommand) changed).query());
    return changed;
  }

  private LogicalPlan merged(DeltaMerge merge, LogicalPlan plan) {
    PlanRewriter.Rows rows = rewritten(merge.source());
    LogicalPlan changed = rows.haveLineage() ? merge.with(rows, stored()) : null;
    return changed == null ? plan : OriginalPlan.keep(plan, changed);
  }

  private PlanRewriter.Rows rewritten(LogicalPlan query) {
    PlanRewriter rewriter = new PlanRewriter(this::isCached, conf.readsHeaders());
    PlanRewriter.Rows rows = rewriter.rewrite(query);
    if (rewriter.query() != null) {
      run = rewriter.query();
      status = RowLineageStatus.add(run, rewriter.coverage());
    } else {
      status = RowLineageStatus.on(run.name(), rewriter.coverage(), run.runId());
    }
    return rows;
  }

  private static LogicalPlan tableOf(AppendData append) {
    return (LogicalPlan) append.table();
  }

  private StoredLineage stored() {
    return new StoredLineage(run, conf.jobVersion());
  }

  private void check(LogicalPlan query) {
    SparkSql.sessionState(session).analyzer().checkAnalysis(query);
    if (DryPlanning.mayFail(query)) {
      new DryPlanning(session).ofBatch(query);
    }
  }

  private boolean isCached(LogicalPlan plan) {
    return SparkSql.isCached(session, plan);
  }
}
