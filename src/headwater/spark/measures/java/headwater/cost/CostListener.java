package headwater.cost;

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
 * Adds up what tasks use, for each job group and for each run that has marked its thread. The jobs
 * of a streaming query are a group, named after the query's run.
 *
 * <p>A stage belongs to whoever started the job that first needed it; Spark runs it once even when
 * several jobs share it.
 */
public final class CostListener extends SparkListener {
  /** Headwater's mark of the jobs of a run, set on the thread that starts them. */
  private static final String RUN = "headwater.cost.run";

  /** The same, for all but the streaming queries that the thread starts: each is its own run. */
  private static final String BATCH_RUN = "headwater.cost.batch-run";

  private static final String QUERY = "sql.streaming.queryId";
  private static final String GROUP = "spark.jobGroup.id";

  /** Tasks may end after their stage does, when a copy of them was faster. */
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

  /** The one of this context, which listens from its first use on. */
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

  /** What was used so far, in the order of the fields of {@link Usage}; zeros for the unknown. */
  public synchronized long[] usage(String owner) {
    return usages.getOrDefault(owner, new Usage()).fields();
  }

  /**
   * Waits, at most so long, until Spark has told of all tasks that have ended by now; says whether
   * it has. It is not asked whether everybody is told: who waits here may be told something, too.
   */
  public boolean settle(long millis) throws InterruptedException {
    if (context.isStopped()) {
      // Nothing is told any more.
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

  private static <K, V> Map<K, V> bounded(int most) {
    return new LinkedHashMap<>(16, 0.75f, true) {
      @Override
      protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
        return size() > most;
      }
    };
  }

  /** Comes behind whatever was told before it. */
  private static final class Mark implements SparkListenerEvent {
    private final CountDownLatch seen = new CountDownLatch(1);

    @Override
    public boolean logEvent() {
      return false;
    }
  }

  /** Sums. */
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
        // Of an executor that is gone: nothing was told.
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
        tasks, failedTasks, coreMillis, cpuNanos, gcMillis, bytesRead, recordsRead, bytesWritten,
        recordsWritten, shuffleBytesRead, shuffleBytesWritten, spilledBytes, peakTaskMemory
      };
    }
  }
}
