package dev.headwater.lineage;

import io.openlineage.spark.agent.OpenLineageSparkListener;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;

/**
 * Lineage events of Spark, as JSON, until the Python driver takes them.
 *
 * <p>Adding never blocks: when the queue is full, the oldest entry is dropped and counted.
 */
public final class LineageEventQueue {
  /** Enough for some thousand writes; an entry has about ten kilobytes. */
  private static final int MAX_QUEUED = 5000;

  private static final LinkedBlockingQueue<String> QUEUE = new LinkedBlockingQueue<>();
  private static final AtomicLong DROPPED = new AtomicLong();
  private static volatile boolean open;

  private LineageEventQueue() {}

  /** Add the listener to a running session; its own transport is used unless `throughQueue`. */
  public static void attach(SparkContext context, SparkConf conf, boolean throughQueue) {
    context.addSparkListener(
        throughQueue ? new LineageListener(conf) : new OpenLineageSparkListener(conf));
  }

  /** Start to queue entries; discards those of an earlier run. */
  public static void open() {
    QUEUE.clear();
    DROPPED.set(0);
    open = true;
  }

  /** Stop: queries are not analyzed, and entries are not queued. */
  public static void close() {
    open = false;
    QUEUE.clear();
  }

  static boolean isOpen() {
    return open;
  }

  static void put(String entry) {
    if (!open) {
      return;
    }
    while (QUEUE.size() >= MAX_QUEUED && QUEUE.poll() != null) {
      DROPPED.incrementAndGet();
    }
    QUEUE.add(entry);
  }

  /** All queued entries as JSON; waits at most `millis` for the first one. */
  public static List<String> take(long millis) throws InterruptedException {
    List<String> taken = new ArrayList<>();
    String first = QUEUE.poll(millis, TimeUnit.MILLISECONDS);
    if (first != null) {
      taken.add(first);
      QUEUE.drainTo(taken);
    }
    return taken;
  }

  /** Ends a waiting call of `take`, with an empty text. */
  public static void wake() {
    QUEUE.add("");
  }

  /** Number of entries that were dropped because the queue was full. */
  public static long dropped() {
    return DROPPED.get();
  }
}
