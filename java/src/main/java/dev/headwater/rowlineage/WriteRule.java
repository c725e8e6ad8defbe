package dev.headwater.rowlineage;

import dev.headwater.compat.SparkSql;
import dev.headwater.delivery.CommittedBatches;
import dev.headwater.delivery.ExactlyOnce;
import dev.headwater.delivery.ExactlyOnceException;
import dev.headwater.delivery.OtherDelivery;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.WriteToStream;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.Seq;

/**
 * Adds lineage to the rows that a query writes. Spark applies it once to the analyzed plan of each
 * query that starts, and of each write of a batch.
 *
 * <p>If anything goes wrong, the plan remains as it was, and the reason is reported.
 */
final class WriteRule extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger("dev.headwater.rowlineage");
  // Sinks of Headwater, whose rows have lineage already.
  private static final String OWN = "dev.headwater.";
  // Commands are analyzed more than once.
  private static final TreeNodeTag<Boolean> DONE = new TreeNodeTag<>("headwater.lineage");

  private final SparkSession session;

  WriteRule(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    boolean isWrite = plan instanceof WriteToStream || BatchWrites.isWrite(plan);
    if (!isWrite || plan.getTagValue(DONE).isDefined()) {
      return plan;
    }
    plan.setTagValue(DONE, true);
    try {
      LogicalPlan rewritten =
          plan instanceof WriteToStream write
              ? new StreamWrite(session, write).rewrite()
              : new BatchWrites(session).rewrite(plan);
      rewritten.setTagValue(DONE, true);
      return rewritten;
    } catch (ExactlyOnceException refused) {
      // The only case in which the query does not run: it would run with a weaker guarantee.
      throw refused;
    } catch (Exception | LinkageError | StackOverflowError failed) {
      report(plan, failed);
      return plan;
    }
  }

  private void report(LogicalPlan plan, Throwable failed) {
    if (plan instanceof WriteToStream write) {
      report(session, write, failed);
      return;
    }
    LOG.debug("row lineage", failed);
    // A write in foreachBatch fails in every micro-batch.
    RowLineageStatus.off(BatchWrites.nameOf(plan, session), String.valueOf(failed)).reportOnce();
  }

  private static void report(SparkSession session, WriteToStream write, Throwable failed) {
    LOG.debug("row lineage", failed);
    String name = StreamWrite.nameOf(write, session);
    RowLineageStatus status = RowLineageStatus.off(name, String.valueOf(failed));
    status.report();
    QueryRun run = new QueryRun(name, UUID.randomUUID().toString());
    RecordedRuns runs = RecordedRuns.of(session.conf());
    runs.writeLater(run, status, KafkaRelations.optionsOf(write.inputQuery()), true);
  }

  /** One streaming query that starts. */
  private static final class StreamWrite {
    private final SparkSession session;
    private final WriteToStream write;
    private final String name;
    private final QueryRun run;
    private RowLineageConf conf;
    private SinkChoice choice = new SinkChoice(false, null);
    private RowLineageStatus status;
    private boolean manyParents;
    private boolean requiresExactlyOnce;
    private ExactlyOnce exactlyOnce;
    private OtherDelivery otherDelivery;
    private String reasonForOff;

    StreamWrite(SparkSession session, WriteToStream write) {
      this.session = session;
      this.write = write;
      this.name = nameOf(write, session);
      this.run = new QueryRun(name, UUID.randomUUID().toString());
    }

    static String nameOf(WriteToStream write, SparkSession session) {
      return write.name() == null ? session.sparkContext().appName() : write.name();
    }

    LogicalPlan rewrite() throws IOException {
      if (write.sink().getClass().getName().startsWith(OWN)) {
        return write;
      }
      conf = RowLineageConf.of(session.conf());
      boolean toKafka = KafkaRelations.isOfConnector(write.sink());
      requiresExactlyOnce = toKafka && conf.isExactlyOnce() && conf.enabledFor(name);
      if (requiresExactlyOnce) {
        return withExactlyOnce();
      }
      return toKafka ? withOtherDelivery() : withLineage();
    }

    /** Whether it gets lineage or not, its records are not in the log of exactly-once delivery. */
    private LogicalPlan withOtherDelivery() {
      otherDelivery =
          new OtherDelivery(
              session.sparkContext(), write.resolvedCheckpointLocation(), hadoopConf());
      LogicalPlan rewritten = write;
      try {
        rewritten = withLineage();
      } catch (Exception | LinkageError | StackOverflowError failed) {
        report(session, write, failed);
      }
      boolean isOriginal = ((WriteToStream) rewritten).sink() == write.sink();
      return isOriginal && otherDelivery.findsLog()
          ? Catalyst.replaced(
              rewritten,
              write.sink(),
              new SinkWithoutLog((SupportsWrite) write.sink(), otherDelivery))
          : rewritten;
    }

    /** Whatever would leave the query without lineage elsewhere stops its start here. */
    private LogicalPlan withExactlyOnce() {
      try {
        if (!conf.mistakes().isEmpty()) {
          throw new ExactlyOnceException(conf.mistakes().get(0));
        }
        if (!conf.sink().equals("headwater")) {
          throw new ExactlyOnceException(RowLineageConf.PREFIX + "sink has to be headwater");
        }
        if (write.deleteCheckpointOnStop()) {
          throw new ExactlyOnceException("the query has no option checkpointLocation");
        }
        LogicalPlan rewritten = withLineage();
        if (exactlyOnce == null) {
          String why = reasonForOff == null ? "its rows do not come from Kafka" : reasonForOff;
          throw new ExactlyOnceException("records can't be recognized without lineage: " + why);
        }
        return rewritten;
      } catch (ExactlyOnceException refused) {
        reportOff(refused.getMessage());
        throw refused;
      } catch (Exception | LinkageError | StackOverflowError failed) {
        throw new ExactlyOnceException("query '" + name + "' can't get lineage: " + failed, failed);
      }
    }

    private Configuration hadoopConf() {
      return SparkSql.sessionState(session).newHadoopConf();
    }

    private LogicalPlan withLineage() throws IOException {
      StateMark mark = new StateMark(write.resolvedCheckpointLocation(), hadoopConf());
      boolean stateHasLineage = mark.hasStarted() && mark.version() != null;
      if (!conf.enabledFor(name) && !stateHasLineage) {
        status = RowLineageStatus.off(name, conf.reasonForOff());
        status.keep();
        // Nothing is created for a query without lineage by choice.
        conf.runs().writeLater(run, status, source(), false);
        return off(mark, null);
      }
      if (!conf.mistakes().isEmpty() && !stateHasLineage) {
        return off(mark, conf.mistakes().get(0));
      }
      PlanRewriter rewriter =
          new PlanRewriter(plan -> false, conf.readsHeaders(), mark.hasFixedFields());
      PlanRewriter.Rows rows = rewriter.rewrite(write.inputQuery());
      if (!rows.haveLineage()) {
        // Of an earlier query with this name.
        RowLineageStatus.forget(name);
        return write;
      }
      manyParents = rewriter.mergesParents();
      if (rewriter.changesState()) {
        String reason = refusal(mark);
        if (reason != null) {
          return off(mark, reason);
        }
      }
      chooseSink();
      LogicalPlan rewritten = written(rows);
      if (rewritten == null) {
        return off(mark, write.sink().getClass().getSimpleName() + " has no column for it");
      }
      check(rewritten);
      if (requiresExactlyOnce) {
        exactlyOnce = exactlyOnce(rewriter.coverage());
      }
      if (rewriter.changesState() && !mark.hasStarted()) {
        mark.write();
      }
      status =
          RowLineageStatus.on(name, rewriter.coverage(), choice.reason(), run.runId(), warnings());
      status.report();
      recordRun();
      return withQuery(rewritten);
    }

    private List<String> warnings() {
      List<String> warnings = new ArrayList<>();
      // Its state has lineage, without which Spark would refuse it.
      conf.mistakes().forEach(each -> warnings.add(each + "; the default is used"));
      if (KafkaRelations.isOfConnector(write.sink())) {
        warnings.addAll(conf.withoutEffect());
      }
      return warnings;
    }

    private void chooseSink() {
      if (!KafkaRelations.isOfConnector(write.sink())) {
        return;
      }
      choice =
          SinkChoice.of(
              conf, (SupportsWrite) write.sink(), session.sparkContext().getConf(), source());
      if (requiresExactlyOnce && !choice.replaced()) {
        throw new ExactlyOnceException("Spark's own sink is kept: " + choice.reason());
      }
    }

    /** The replaced sink does so itself: the options of a sink are not known here. */
    private void recordRun() {
      if (!KafkaRelations.isOfConnector(write.sink())) {
        conf.runs().writeLater(run, status, source(), true);
      } else if (!choice.replaced()) {
        // The source is of the same cluster.
        conf.runs().write(run, status, source());
      }
    }

    private Map<String, String> source() {
      return KafkaRelations.optionsOf(write.inputQuery());
    }

    private void reportOff(String reason) {
      RowLineageStatus off = RowLineageStatus.off(name, reason);
      off.report();
      conf.runs().writeLater(run, off, source(), true);
    }

    private ExactlyOnce exactlyOnce(Coverage coverage) throws IOException {
      if (!coverage.kind().equals("exact")) {
        throw new ExactlyOnceException(
            "the parents of rows, by which they are recognized, are not exact because of "
                + coverage.steps()
                + "; use delivery=transactional");
      }
      Repeatability repeatability = new Repeatability(session.sparkContext().isLocal());
      return new ExactlyOnce(
          session.sparkContext(),
          write.resolvedCheckpointLocation(),
          hadoopConf(),
          run.runId(),
          name,
          repeatability.recognizedBy(write.inputQuery()));
    }

    private String refusal(StateMark mark) throws IOException {
      if (!mark.hasStarted()) {
        return conf.stateful().equals("never")
            ? RowLineageConf.PREFIX + "stateful is never, and the query keeps state"
            : null;
      }
      if (mark.version() == null) {
        return "the checkpoint has state without lineage; a query with a new checkpoint gets it";
      }
      return mark.isSupported()
          ? null
          : "the checkpoint has lineage of version " + mark.version() + " in its state";
    }

    private LogicalPlan off(StateMark mark, String reason) throws IOException {
      if (!mark.hasStarted()) {
        mark.remove();
      }
      reasonForOff = reason;
      if (reason != null && !requiresExactlyOnce) {
        reportOff(reason);
      }
      return write;
    }

    private LogicalPlan written(PlanRewriter.Rows rows) {
      Seq<Attribute> columns = write.inputQuery().output();
      if (KafkaRelations.isOfConnector(write.sink())) {
        if (choice.replaced()) {
          return SinkColumns.forLineageSink(rows, columns);
        }
        return SinkColumns.withHeader(rows, columns, run);
      }
      if (write.sink().getClass().getSimpleName().equals("ForeachBatchSink")) {
        ReceivedRows.addClient(write.sink(), session, run);
        return SinkColumns.withHiddenColumn(rows, columns, run);
      }
      StructType table = Tables.schemaOf(write.sink(), session);
      return table == null
          ? null
          : new StoredLineage(run, conf.jobVersion()).withColumn(rows, write.inputQuery(), table);
    }

    private Table sink() {
      if (choice.replaced()) {
        return new ReplacedKafkaSink(
            (SupportsWrite) write.sink(),
            write.inputQuery().schema(),
            conf,
            conf.delivery().equals("transactional") ? committedBatches() : null,
            run,
            status,
            manyParents,
            exactlyOnce,
            otherDelivery);
      }
      return write.sink();
    }

    private CommittedBatches committedBatches() {
      return new CommittedBatches(
          session.sparkContext(), write.resolvedCheckpointLocation(), hadoopConf());
    }

    private LogicalPlan withQuery(LogicalPlan query) {
      return Catalyst.replaced(
          write,
          write.sink(),
          sink(),
          write.inputQuery(),
          OriginalPlan.keep(write.inputQuery(), query));
    }

    /** Errors that Spark would report when the query runs must show here. */
    private void check(LogicalPlan query) {
      SparkSql.sessionState(session).analyzer().checkAnalysis(query);
      UnsupportedOperationChecker.checkForStreaming(query, write.outputMode());
      new DryPlanning(session).ofStream(query, write.outputMode());
    }
  }
}
