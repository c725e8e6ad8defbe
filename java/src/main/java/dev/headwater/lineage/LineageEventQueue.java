package dev.headwater.lineage;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

import io.micrometer.core.instrument.composite.CompositeMeterRegistry;
import io.openlineage.spark.agent.ArgumentParser;
import io.openlineage.spark.agent.OpenLineageSparkListener;
import io.openlineage.spark.api.SparkOpenLineageConfig;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.slf4j.LoggerFactory;

/**
 * Lineage events of Spark, as JSON, until the Python driver takes them.
 *
 * Adding never blocks: when the queue is full, the oldest entry is dropped and counted.
 */
public final class LineageEventQueue {
  /** Enough for some thousand writes; an entry has about ten kilobytes. */
  private static final int MAX_QUEUED = 5000;

  private static final String LISTENER_LOGGER = "io.openlineage";
  private static final LinkedBlockingQueue<String> QUEUE = new LinkedBlockingQueue<>();
  private static final AtomicLong DROPPED = new AtomicLong();
  private static volatile boolean open;

  private LineageEventQueue() {}

  /** Make the next listener of this JVM use this queue. */
  static Executions prepare(SparkContext context) {
    return prepare(context, context.getConf());
  }

  private static Executions prepare(SparkContext context, SparkConf conf) {
    quietListener();
    Executions executions = new Executions();
    // Registered first: it must know an execution before the listener emits its event.
    context.addSparkListener(executions);
    try {
      SparkOpenLineageConfig config = ArgumentParser.parse(conf);
      OpenLineageSparkListener.overrideDefaultFactoryForTests(
          new FilteringContextFactory(
              new QueueingEventEmitter(config, context.appName(), executions),
              new CompositeMeterRegistry(),
              config,
              executions));
    } catch (Exception | LinkageError error) {
      // Lineage never fails a job. Python also reports invalid settings, such as a bad address; a
      // second OpenLineage jar may be incompatible.
      LoggerFactory.getLogger(LineageEventQueue.class).error("lineage of batch writes is disabled: {}", error.toString());
    }
    return executions;
  }

  /** The listener logs every node of a plan that it does not know; {@link PlanTables} adds them. */
  private static void quietListener() {
    try {
      LoggerContext context = (LoggerContext) LogManager.getContext(false);
      if (!context.getConfiguration().getLoggers().containsKey(LISTENER_LOGGER)) {
        Configurator.setLevel(LISTENER_LOGGER, Level.FATAL);
      }
    } catch (RuntimeException | LinkageError error) {
      // The user's logging has another implementation: it decides.
    }
  }

  /** Add the listener to a running session. */
  public static void attach(SparkContext context, SparkConf conf, boolean throughQueue) {
    if (throughQueue) {
      prepare(context, conf);
    }
    context.addSparkListener(new OpenLineageSparkListener(conf));
    end();
  }

  /** Listeners that are created later use their own transport again. */
  static void end() {
    OpenLineageSparkListener.resetDefaultFactoryForTests();
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
