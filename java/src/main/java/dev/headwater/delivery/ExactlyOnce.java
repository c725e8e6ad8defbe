package dev.headwater.delivery;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.function.LongSupplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.spark.SparkContext;
import org.apache.spark.util.SerializableConfiguration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The driver's part of exactly-once delivery, for one start of a query.
 *
 * <p>Only an interrupted batch can be written twice: Spark runs it again with the same input.
 * Before its tasks start, the output is read from where it ended before that batch; the tasks leave
 * out the records that are found. The positions are recorded in the checkpoint. Other batches are
 * written as usual. Conditions and limits: docs/concepts/delivery.md.
 */
public final class ExactlyOnce {
  private static final Logger LOG = LoggerFactory.getLogger("dev.headwater.delivery");
  // With an older snapshot there is only more to read.
  private static final long SNAPSHOT_NANOS = Duration.ofSeconds(5).toNanos();
  // Other producers may write to partitions that the query rarely writes to.
  private static final long REFRESH_NANOS = Duration.ofMinutes(1).toNanos();
  private static final long DEFAULT_TIMEOUT_MILLIS = 120_000;

  private final SparkContext spark;
  private final String checkpoint;
  private final Configuration configuration;
  private final String runId;
  private final String job;
  private final RecognizedBy recognizedBy;
  private final OutputLog log;
  // When the plan was analyzed; another run of this application may be active then.
  private final OutputLog.Progress progress;
  private final boolean fenced;
  private OutputLog.Entry entry;
  private OutputTail tail;
  private WrittenRecords written;
  // Replaced in tests.
  Function<SinkOptions, OutputTail> output = OutputTail::new;
  LongSupplier clock = System::nanoTime;
  private boolean started;
  private long firstBatch;
  private long recorded;
  private long refreshed;

  /**
   * Reads the checkpoint of a query before it starts.
   *
   * @throws ExactlyOnceException the guarantee can't be given
   */
  public ExactlyOnce(
      SparkContext spark,
      String checkpoint,
      Configuration configuration,
      String runId,
      String job,
      RecognizedBy recognizedBy)
      throws IOException {
    this.spark = spark;
    this.checkpoint = checkpoint;
    this.configuration = configuration;
    this.runId = runId;
    this.job = job;
    this.recognizedBy = recognizedBy;
    fenced = !(spark.isLocal() && CheckpointLock.isLocal(checkpoint, configuration));
    if (Boolean.parseBoolean(spark.getConf().get("spark.speculation", "false"))) {
      throw new ExactlyOnceException(
          "spark.speculation=true runs tasks twice: set it to false, or use"
              + " delivery=transactional");
    }
    if (!fenced) {
      CheckpointLock.hold(checkpoint);
    }
    log = new OutputLog(checkpoint, configuration);
    RunsHere.Begun former = RunsHere.last(checkpoint);
    progress = log.progress();
    if (former.batch() > progress.started()) {
      RunsHere.forget(checkpoint, former);
    }
    entry = log.read();
    if (progress.isInterrupted()) {
      refuseUnknown(progress.started());
    } else {
      announce(progress.committed() + 1);
    }
  }

  /**
   * Records that this delivery has written nothing yet. The start may fail after Spark has recorded
   * the first batch, for example because the output is missing: the batch is then not one of
   * another delivery.
   */
  private void announce(long next) throws IOException {
    // An entry with runs is enough, and an active run of this application may have written it.
    if (entry == null || entry.runs().isEmpty() && !entry.hasNothingOf(next)) {
      add(OutputLog.Entry.announced(runId, job, recognizedBy.withContent(), next));
    }
  }

  private void refuseUnknown(long batch) {
    String what = "batch " + batch + " in " + checkpoint + " was interrupted";
    if (entry == null || entry.runs().isEmpty() && !entry.hasNothingOf(batch)) {
      throw new ExactlyOnceException(
          what
              + " with another delivery: complete it with that one, and change it then"
              + ExactlyOnceException.WAY_OUT);
    }
    if (entry.lastBefore(batch) == null) {
      throw new ExactlyOnceException(
          what + ", and its log does not reach back to it" + ExactlyOnceException.WAY_OUT);
    }
    if (!entry.runs().isEmpty() && !entry.job().equals(job)) {
      throw new ExactlyOnceException(
          what
              + " in the query '"
              + entry.job()
              + "', now called '"
              + job
              + "': restore its name"
              + ExactlyOnceException.WAY_OUT);
    }
  }

  /** Called on the driver before the tasks of each batch. */
  TaskGuard before(SinkOptions options) throws IOException {
    long batch = currentBatch();
    if (!started) {
      start(batch, options);
      firstBatch = batch;
      started = true;
    } else if (clock.getAsLong() - recorded > REFRESH_NANOS) {
      // Of a query that was idle: retention may delete what is after an old snapshot.
      refreshed = clock.getAsLong();
      add(entry.with(List.of(runId), List.of(new OutputLog.Snapshot(batch, tail.ends()))));
    }
    RunsHere.begin(checkpoint, new RunsHere.Begun(batch, true));
    WrittenRecords leftOut = written != null && written.batch() == batch ? written : null;
    return new TaskGuard(leftOut, fence());
  }

  private RunFence fence() {
    return fenced
        ? new RunFence(new SerializableConfiguration(configuration), checkpoint, runId)
        : null;
  }

  private long currentBatch() {
    String batch = spark.getLocalProperty("streaming.sql.batchId");
    String continuous = spark.getLocalProperty("__is_continuous_processing");
    if (batch == null || Boolean.parseBoolean(continuous)) {
      throw new ExactlyOnceException("the trigger has no micro-batches");
    }
    return Long.parseLong(batch);
  }

  private void start(long batch, SinkOptions options) throws IOException {
    boolean mayHaveWritten = mayHaveWritten(batch);
    tail = output.apply(options);
    String topicId = tail.topicId();
    if (!mayHaveWritten) {
      OutputLog.Snapshot now = new OutputLog.Snapshot(batch, tail.ends());
      begin(List.of(runId), topicId, writersEnd(options), List.of(now));
      return;
    }
    refuseOther(tail.topic(), topicId, batch);
    endFormerRuns(options);
    boolean endedHere = RunsHere.all().containsAll(entry.runs());
    long wait = entry.writersEndMillis();
    List<String> runs = new ArrayList<>(entry.runs());
    runs.add(runId);
    long longest = Math.max(wait, writersEnd(options));
    begin(runs, topicId, longest, entry.snapshots());
    if (fenced && !endedHere) {
      await(wait, batch);
    }
    OutputLog.Snapshot before = entry.lastBefore(batch);
    written = tail.written(before.ends(), new HashSet<>(runs), batch, recognizedBy);
    LOG.info(
        "batch {} of query '{}' was interrupted; {} of its records are already written",
        batch,
        job,
        written.size());
  }

  /**
   * Whether an attempt of the batch may have written records. Reads the checkpoint again: since the
   * plan was analyzed, Spark has stopped a run of this application that was active.
   */
  private boolean mayHaveWritten(long batch) throws IOException {
    OutputLog.Progress now = log.progress();
    if (now.started() != batch) {
      throw new ExactlyOnceException(
          "batch "
              + batch
              + " runs, and the newest in the offsets of "
              + checkpoint
              + " is "
              + now.started()
              + ": use a trigger that records a batch before it runs (not the real-time mode)");
    }
    readAgain();
    RunsHere.Begun here = RunsHere.last(checkpoint);
    long last = Math.max(progress.started(), here.batch());
    long committed = now.committed();
    long expected = last > committed ? last : committed + 1;
    if (batch != expected || committed > Math.max(progress.committed(), here.batch())) {
      throw otherDriver("batch " + batch + " follows " + progress.committed() + ", committed");
    }
    if (last <= committed) {
      return false;
    }
    if (here.batch() == batch && !here.exactlyOnce()) {
      entry = null;
    }
    refuseUnknown(batch);
    return !entry.runs().isEmpty();
  }

  private void readAgain() throws IOException {
    OutputLog.Entry newest = log.read();
    boolean isKnown =
        newest != null && (newest.equals(entry) || RunsHere.all().contains(newest.run()));
    if (!isKnown) {
      throw otherDriver(
          newest == null ? "the log was removed" : "run " + newest.run() + " started");
    }
    entry = newest;
  }

  private ExactlyOnceException otherDriver(String what) {
    return new ExactlyOnceException(
        what + " since the query was started: another driver runs it, with " + checkpoint);
  }

  private void refuseOther(String topic, String topicId, long batch) {
    if (!entry.topic().equals(topic) || !entry.topicId().equals(topicId)) {
      throw new ExactlyOnceException(
          "batch "
              + batch
              + " was interrupted while it wrote to "
              + entry.topic()
              + " (id "
              + entry.topicId()
              + "), and now the output is "
              + topic
              + " (id "
              + topicId
              + ")"
              + ExactlyOnceException.WAY_OUT);
    }
    if (entry.withContent() != recognizedBy.withContent()) {
      throw new ExactlyOnceException(
          "batch "
              + batch
              + " was interrupted in a query with other steps: complete it with those"
              + ExactlyOnceException.WAY_OUT);
    }
  }

  /** A batch that failed or was stopped in this application may have tasks that still write. */
  private void endFormerRuns(SinkOptions options) {
    if (entry.runs().stream().noneMatch(RunsHere.all()::contains)) {
      return;
    }
    boolean ended = spark.isLocal() && Producers.settle(options.queryId(), writersEnd(options));
    if (!ended) {
      throw new ExactlyOnceException(
          "a batch was interrupted in this application, and its tasks may still write: end the "
              + "application and start it again");
    }
  }

  private void await(long millis, long batch) {
    LOG.info(
        "batch {} of query '{}' was interrupted; waiting {} s until writers of former runs have "
            + "ended (kafka.max.block.ms and kafka.delivery.timeout.ms)",
        batch,
        job,
        millis / 1000);
    try {
      Thread.sleep(millis);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw ExactlyOnceException.stopped("while it waited for writers of former runs", stopped);
    }
  }

  /** Called on the driver after all tasks of a batch; Spark commits the batch afterwards. */
  void after(long batch, WrittenOffsets offsets) throws IOException {
    if (written != null && written.batch() == batch) {
      reportLeftOut(written.check(offsets.leftOut()), batch);
      written = null;
    }
    long now = clock.getAsLong();
    if (now - recorded < SNAPSHOT_NANOS) {
      return;
    }
    Map<Integer, Long> ends = new TreeMap<>(entry.lastBefore(batch + 1).ends());
    if (now - refreshed > REFRESH_NANOS) {
      ends.putAll(tail.ends());
      refreshed = now;
    }
    ends.putAll(offsets.endsOf(entry.topic()));
    // Spark may fail to commit this batch, which then needs the snapshot before it.
    List<OutputLog.Snapshot> snapshots =
        List.of(entry.lastBefore(batch), new OutputLog.Snapshot(batch + 1, ends));
    add(entry.with(batch == firstBatch ? entry.runs() : List.of(runId), snapshots));
  }

  private void reportLeftOut(int leftOut, long batch) {
    LOG.info("batch {} of query '{}': left out {} records", batch, job, leftOut);
    if (leftOut < written.size()) {
      LOG.error(
          "batch {} of query '{}': {} records that interrupted attempts have written were not made "
              + "again: the output has duplicates, or the transformation is not deterministic",
          batch,
          job,
          written.size() - leftOut);
    }
  }

  private void begin(
      List<String> runs, String topicId, long writersEndMillis, List<OutputLog.Snapshot> snapshots)
      throws IOException {
    refreshed = clock.getAsLong();
    RunsHere.add(runId);
    add(
        new OutputLog.Entry(
            OutputLog.FORMAT_VERSION,
            runId,
            runs,
            job,
            tail.topic(),
            topicId,
            recognizedBy.withContent(),
            writersEndMillis,
            snapshots));
  }

  private void add(OutputLog.Entry next) throws IOException {
    log.add(next);
    entry = next;
    recorded = clock.getAsLong();
  }

  /** How long a record may take: for the check of the fence, a full buffer, and the delivery. */
  private static long writersEnd(SinkOptions options) {
    return RunFence.INTERVAL.toMillis()
        + millis(options, ProducerConfig.MAX_BLOCK_MS_CONFIG)
        + millis(options, ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG);
  }

  private static long millis(SinkOptions options, String name) {
    Object configured = options.producer().get(name);
    return configured == null ? DEFAULT_TIMEOUT_MILLIS : Long.parseLong(configured.toString());
  }
}
