package headwater.lineage;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

import io.micrometer.core.instrument.composite.CompositeMeterRegistry;
import io.openlineage.spark.agent.ArgumentParser;
import io.openlineage.spark.agent.OpenLineageSparkListener;
import io.openlineage.spark.api.SparkOpenLineageConfig;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.slf4j.LoggerFactory;

/**
 * What the OpenLineage listener has to tell waits here until the driver's Python takes it.
 *
 * Nothing here waits for anybody: when too much waits, the oldest is dropped and counted.
 */
public final class LineageEventQueue {
  /** A job of some thousand writes; an entry has some ten kilobytes. */
  private static final int MAX_WAITING = 5000;

  private static final LinkedBlockingQueue<String> WAITING = new LinkedBlockingQueue<>();
  private static final AtomicLong DROPPED = new AtomicLong();
  private static volatile boolean open;

  private LineageEventQueue() {}

  /** The next listener of this JVM hands its events over. */
  static Executions prepare(SparkContext context) {
    return prepare(context, context.getConf());
  }

  private static Executions prepare(SparkContext context, SparkConf conf) {
    Executions executions = new Executions();
    // Registered first, so that it has seen an execution before the listener tells of it.
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
      // A job does not fail for its lineage: a bad address, for one, is told by Python, too; and a
      // second OpenLineage jar may not fit.
      LoggerFactory.getLogger(LineageEventQueue.class).error("No lineage of batch writes: {}", error.toString());
    }
    return executions;
  }

  /** For a session that runs already: its listener is added now. */
  public static void attach(SparkContext context, SparkConf conf, boolean handingOver) {
    if (handingOver) {
      prepare(context, conf);
    }
    context.addSparkListener(new OpenLineageSparkListener(conf));
    end();
  }

  /** A listener that is made later, with another transport, is left alone. */
  static void end() {
    OpenLineageSparkListener.resetDefaultFactoryForTests();
  }

  /** From now on things are kept; what was told before is nobody's. */
  public static void open() {
    WAITING.clear();
    DROPPED.set(0);
    open = true;
  }

  /** Nobody takes anything any more: nothing is looked at, and nothing kept. */
  public static void close() {
    open = false;
    WAITING.clear();
  }

  static boolean isOpen() {
    return open;
  }

  static void put(String told) {
    if (!open) {
      return;
    }
    while (WAITING.size() >= MAX_WAITING && WAITING.poll() != null) {
      DROPPED.incrementAndGet();
    }
    WAITING.add(told);
  }

  /** What waits, as JSON texts; waits for the first one, at most so long. */
  public static List<String> take(long millis) throws InterruptedException {
    List<String> taken = new ArrayList<>();
    String first = WAITING.poll(millis, TimeUnit.MILLISECONDS);
    if (first != null) {
      taken.add(first);
      WAITING.drainTo(taken);
    }
    return taken;
  }

  /** Ends a call of `take` that waits: with an empty text. */
  public static void wake() {
    WAITING.add("");
  }

  /** How many were too many to wait. */
  public static long dropped() {
    return DROPPED.get();
  }
}
