package dev.headwater.cost;

import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

/**
 * Adds up the usage of tasks for each job group, and for each run that is set as a property of the
 * thread. The jobs of a streaming query are a group with the id of the query's run.
 *
 * <p>A stage belongs to the job that first needed it; Spark runs it once even if several jobs share
 * it.
 */
public final class CostListener extends SparkListener {
  /** The run of jobs; a local property of the thread that starts them. */
  private static final String RUN = "headwater.cost.run";

  /** The same without streaming queries that the thread starts, which are separate runs. */
  private static final String BATCH_RUN = "headwater.cost.batch-run";

  private static final String QUERY = "sql.streaming.queryId";
  private static final String GROUP = "spark.jobGroup.id";

  /** Kept after their end, because speculative tasks may end after their stage. */
  private static final int MAX_STAGES = 10_000;

  private static final int MAX_OWNERS = 10_000;
  private static final Map<SparkContext, CostListener> LISTENERS = new ConcurrentHashMap<>();

  private final Map<Integer, Set<String>> ownersOfStage = bounded(MAX_STAGES);
  private final Map<String, Usage> usages = bounded(MAX_OWNERS);
  private final SparkContext context;
  private final int cpusPerTask;

  private CostListener(SparkContext context) {
    this.context = context;
    this.cpusPerTask = Integer.parseInt(context.getConf().get("spark.task.cpus", "1"));
  }

  /** The listener of this context, which is registered by the first call. */
  public static CostListener of(SparkContext context) {
    LISTENERS.keySet().removeIf(SparkContext::isStopped);
    return LISTENERS.computeIfAbsent(
        context,
        added -> {
          CostListener listener = new CostListener(added);
          added.addSparkListener(listener);
          return listener;
        });
  }

  /** The usage so far, in the order of the fields of {@link Usage}; zeros for an unknown owner. */
  public synchronized long[] usage(String owner) {
    return usages.getOrDefault(owner, new Usage()).fields();
  }

  /**
   * Waits until this listener has received all tasks that have ended by now; returns false after
   * the timeout. Does not wait for the complete listener bus, because the caller may be a listener.
   */
  public boolean settle(long millis) throws InterruptedException {
    if (context.isStopped()) {
      // No more events.
      return false;
    }
    Mark mark = new Mark();
    context.listenerBus().post(mark);
    return mark.seen.await(millis, TimeUnit.MILLISECONDS);
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof Mark mark) {
      mark.seen.countDown();
    }
  }

  @Override
  public synchronized void onStageSubmitted(SparkListenerStageSubmitted event) {
    Properties properties = event.properties();
    if (properties == null) {
      return;
    }
    Set<String> owners = new HashSet<>();
    owners.add(properties.getProperty(GROUP));
    owners.add(properties.getProperty(RUN));
    if (properties.getProperty(QUERY) == null) {
      owners.add(properties.getProperty(BATCH_RUN));
    }
    owners.remove(null);
    if (!owners.isEmpty()) {
      ownersOfStage.put(event.stageInfo().stageId(), owners);
    }
  }

  @Override
  public synchronized void onTaskEnd(SparkListenerTaskEnd event) {
    for (String owner : ownersOfStage.getOrDefault(event.stageId(), Set.of())) {
      usages
          .computeIfAbsent(owner, unknown -> new Usage())
          .add(event.taskMetrics(), event.taskInfo().successful(), cpusPerTask);
    }
  }

  private static <K, V> Map<K, V> bounded(int limit) {
    return new LinkedHashMap<>(16, 0.75f, true) {
      @Override
      protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
        return size() > limit;
      }
    };
  }

  /** An event that arrives after all previous ones. */
  private static final class Mark implements SparkListenerEvent {
    private final CountDownLatch seen = new CountDownLatch(1);

    @Override
    public boolean logEvent() {
      return false;
    }
  }

  /** Totals. */
  private static final class Usage {
    private long tasks;
    private long failedTasks;
    private long coreMillis;
    private long cpuNanos;
    private long gcMillis;
    private long bytesRead;
    private long recordsRead;
    private long bytesWritten;
    private long recordsWritten;
    private long shuffleBytesRead;
    private long shuffleBytesWritten;
    private long spilledBytes;
    private long peakTaskMemory;

    void add(TaskMetrics task, boolean successful, int cpus) {
      tasks++;
      failedTasks += successful ? 0 : 1;
      if (task == null) {
        // The executor was lost before it reported metrics.
        return;
      }
      coreMillis += cpus * (task.executorDeserializeTime() + task.executorRunTime());
      cpuNanos += task.executorDeserializeCpuTime() + task.executorCpuTime();
      gcMillis += task.jvmGCTime();
      bytesRead += task.inputMetrics().bytesRead();
      recordsRead += task.inputMetrics().recordsRead();
      bytesWritten += task.outputMetrics().bytesWritten();
      recordsWritten += task.outputMetrics().recordsWritten();
      shuffleBytesRead += task.shuffleReadMetrics().totalBytesRead();
      shuffleBytesWritten += task.shuffleWriteMetrics().bytesWritten();
      spilledBytes += task.diskBytesSpilled();
      peakTaskMemory = Math.max(peakTaskMemory, task.peakExecutionMemory());
    }

    long[] fields() {
      return new long[] {
        tasks,
        failedTasks,
        coreMillis,
        cpuNanos,
        gcMillis,
        bytesRead,
        recordsRead,
        bytesWritten,
        recordsWritten,
        shuffleBytesRead,
        shuffleBytesWritten,
        spilledBytes,
        peakTaskMemory
      };
    }
  }
}
