package dev.headwater.rowlineage;

import dev.headwater.delivery.RunRecord;
import dev.headwater.delivery.RunRecords;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.RuntimeConfig;

/**
 * Writes the job of each run, and how exact its row lineage is, to the topic of runs. `headwater
 * doctor` reads the latter, so that a job needs no catalog and no other code for it.
 *
 * @param topic compacted, with one record per run
 */
record RecordedRuns(String topic, String jobVersion) {
  private static final String SERVERS = "kafka.bootstrap.servers";
  private static final long END_SECONDS = 5;
  // Of the records that were written, or are being written, one for each state of a run.
  private static final Map<String, Future<?>> WRITES = new Recent<>(10_000);
  // By the name of the query.
  private static final Map<String, Started> STARTED = new Recent<>(1000);
  private static final ExecutorService THREADS = threads();

  /** The last start of a query. */
  private record Started(
      RecordedRuns runs, QueryRun run, long millis, Map<String, String> options) {}

  /** With the settings of a session, of which others may be wrong. */
  static RecordedRuns of(RuntimeConfig conf) {
    return new RecordedRuns(
        conf.get(RowLineageConf.PREFIX + "runsTopic", "headwater-runs").trim(),
        conf.get(RowLineageConf.PREFIX + "jobVersion", "v1.0.0"));
  }

  /**
   * Writes the record and waits for it: readers of the records look for their job there.
   *
   * @param options that configure a client of the cluster, with the prefix `kafka.`
   */
  void write(QueryRun run, RowLineageStatus status, Map<String, String> options) {
    try {
      submit(run, status, options, true).get();
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    } catch (ExecutionException | CancellationException failed) {
      // RunRecords has logged it.
    }
  }

  /**
   * Writes the record while the query starts, which it does not delay.
   *
   * @param create creates the topic if it is missing
   */
  void writeLater(
      QueryRun run, RowLineageStatus status, Map<String, String> options, boolean create) {
    if (options.containsKey(SERVERS)) {
      submit(run, status, options, create);
    }
  }

  /** Writes the record of a query's last start again: it is known better since. */
  static void update(RowLineageStatus status) {
    Started started;
    synchronized (STARTED) {
      started = STARTED.get(status.query());
    }
    if (started != null) {
      started.runs.writeLater(started.run, status, started.options, true);
    }
  }

  private Future<?> submit(
      QueryRun run, RowLineageStatus status, Map<String, String> options, boolean create) {
    RunRecord written = recordOf(run, status, options);
    String state = String.join("\n", options.get(SERVERS), run.runId(), status.toString());
    synchronized (WRITES) {
      return WRITES.computeIfAbsent(
          state, key -> started(() -> RunRecords.write(options, topic, written, create)));
    }
  }

  private RunRecord recordOf(QueryRun run, RowLineageStatus status, Map<String, String> options) {
    long now = System.currentTimeMillis();
    synchronized (STARTED) {
      Started known = STARTED.get(run.name());
      if (known == null || !known.run.equals(run)) {
        known = new Started(this, run, now, options);
        STARTED.put(run.name(), known);
      }
      now = known.millis;
    }
    return new RunRecord(
        run.runId(), run.name(), jobVersion, now, status.kind(), status.steps(), status.reason());
  }

  private static Future<?> started(Runnable write) {
    try {
      return THREADS.submit(write);
    } catch (RejectedExecutionException ending) {
      return CompletableFuture.completedFuture(null);
    }
  }

  private static ExecutorService threads() {
    ExecutorService threads =
        Executors.newCachedThreadPool(
            work -> {
              Thread thread = new Thread(work, "headwater-runs");
              thread.setDaemon(true);
              return thread;
            });
    // A short job may end before its record is written.
    Runtime.getRuntime().addShutdownHook(new Thread(() -> end(threads)));
    return threads;
  }

  private static void end(ExecutorService threads) {
    threads.shutdown();
    try {
      threads.awaitTermination(END_SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
  }

  /** Without the oldest entries beyond a number. */
  private static final class Recent<V> extends LinkedHashMap<String, V> {
    private static final long serialVersionUID = 1;
    private final int limit;

    Recent(int limit) {
      this.limit = limit;
    }

    @Override
    protected boolean removeEldestEntry(Map.Entry<String, V> eldest) {
      return size() > limit;
    }
  }
}
