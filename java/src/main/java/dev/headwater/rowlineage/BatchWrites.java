package dev.headwater.rowlineage;

import dev.headwater.compat.SparkSql;
import dev.headwater.delivery.ExactlyOnceException;
import java.util.UUID;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2CreateTableAsSelectPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.execution.command.DataWritingCommand;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import org.apache.spark.sql.types.StructType;

/** Writes of a batch, such as in foreachBatch. */
final class BatchWrites {
  private final SparkSession session;
  private final RowLineageConf conf;
  private QueryRun run;
  private Coverage coverage;

  BatchWrites(SparkSession session) {
    this.session = session;
    this.run = new QueryRun(session.sparkContext().appName(), UUID.randomUUID().toString());
    this.conf = RowLineageConf.of(session.conf());
  }

  static boolean isWrite(LogicalPlan plan) {
    return plan instanceof SaveIntoDataSourceCommand
        || plan instanceof AppendData append && tableOf(append).resolved()
        || DeltaMerge.isMerge(plan)
        || RowLevelMerge.isMerge(plan)
        || isOther(plan);
  }

  /** Writes that have no place for lineage, such as of files; they are only reported. */
  private static boolean isOther(LogicalPlan plan) {
    return plan.resolved()
        && (plan instanceof DataWritingCommand
            || plan instanceof V2WriteCommand && !(plan instanceof AppendData)
            || plan instanceof V2CreateTableAsSelectPlan);
  }

  /** The name of the query whose micro-batch is written, else of the application. */
  static String nameOf(LogicalPlan write, SparkSession session) {
    QueryRun query = queryOf(write);
    return query == null ? session.sparkContext().appName() : query.name();
  }

  /** The query whose micro-batch is written, or null. */
  private static QueryRun queryOf(LogicalPlan write) {
    for (LogicalPlan leaf : Catalyst.<LogicalPlan>java(rowsOf(write).collectLeaves())) {
      Attribute hidden = Catalyst.column(leaf.output(), LineageStruct.COLUMN);
      QueryRun query = hidden == null ? null : QueryRun.of(hidden.metadata());
      ReceivedRows.Origin lost = ReceivedRows.of(leaf);
      if (query != null || lost != null) {
        return query == null ? lost.query() : query;
      }
    }
    return null;
  }

  private static LogicalPlan rowsOf(LogicalPlan write) {
    if (write instanceof SaveIntoDataSourceCommand save) {
      return save.query();
    }
    return write instanceof V2WriteCommand command ? command.query() : write;
  }

  LogicalPlan rewrite(LogicalPlan plan) {
    if (!conf.enabledFor(nameOf(plan, session))) {
      return plan;
    }
    if (conf.isExactlyOnce()) {
      refuseInMicroBatch(plan);
    }
    if (!conf.mistakes().isEmpty()) {
      throw new IllegalArgumentException(conf.mistakes().get(0));
    }
    LogicalPlan rewritten = withLineage(plan);
    QueryRun query = queryOf(plan);
    if (query != null && rewritten != plan) {
      RowLineageStatus.written(query, coverage);
    } else if (query != null) {
      RowLineageStatus.leftAlone(query, sinkOf(plan));
    }
    return rewritten;
  }

  /** For a status, so without what may be different in each micro-batch. */
  private static String sinkOf(LogicalPlan write) {
    if (write instanceof SaveIntoDataSourceCommand save) {
      return save.dataSource().getClass().getSimpleName();
    }
    if (write instanceof InsertIntoHadoopFsRelationCommand files) {
      return files.fileFormat().getClass().getSimpleName();
    }
    return write instanceof V2WriteCommand command
        ? command.table().name()
        : write.getClass().getSimpleName();
  }

  private LogicalPlan withLineage(LogicalPlan plan) {
    if (RowLevelMerge.isMerge(plan)) {
      return merged(new RowLevelMerge((V2WriteCommand) plan), plan);
    }
    if (plan instanceof AppendData append) {
      return appended(append);
    }
    if (DeltaMerge.isMerge(plan)) {
      return merged(new DeltaMerge(plan), plan);
    }
    return plan instanceof SaveIntoDataSourceCommand save ? saved(save) : plan;
  }

  private LogicalPlan saved(SaveIntoDataSourceCommand write) {
    LogicalPlan query = rowsFor(write);
    if (query == null) {
      return write;
    }
    check(query);
    OriginalPlan.keep(write.query(), query);
    return new SaveIntoDataSourceCommand(query, write.dataSource(), write.options(), write.mode());
  }

  private void refuseInMicroBatch(LogicalPlan plan) {
    QueryRun query = queryOf(plan);
    if (query != null
        && conf.enabledFor(query.name())
        && plan instanceof SaveIntoDataSourceCommand write
        && KafkaRelations.isOfConnector(write.dataSource())) {
      throw new ExactlyOnceException(
          "query '"
              + query.name()
              + "' writes to Kafka inside foreachBatch, where a batch that runs again writes its "
              + "records again: write the stream itself to Kafka, or use delivery=idempotent");
    }
  }

  private LogicalPlan rowsFor(SaveIntoDataSourceCommand write) {
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
    run.record(conf, Catalyst.java(write.options()));
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
    }
    coverage = rewriter.coverage();
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
