package dev.headwater.delivery;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What this application has started. A query that is started again here may have an active run,
 * which Spark stops only after it has analyzed the plan of the new one.
 */
final class RunsHere {
  private static final int MAX_CHECKPOINTS = 1000;
  // Runs whose tasks may still write. Not `newKeySet`: see Executions.
  private static final Set<String> STARTED = Collections.newSetFromMap(new ConcurrentHashMap<>());
  private static final Map<String, Begun> LAST =
      new LinkedHashMap<>(16, 0.75f, true) {
        private static final long serialVersionUID = 1;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Begun> eldest) {
          return size() > MAX_CHECKPOINTS;
        }
      };

  /** A batch whose tasks were started, with exactly-once or with another delivery. */
  record Begun(long batch, boolean exactlyOnce) {
    static final Begun NONE = new Begun(-1, true);
  }

  private RunsHere() {}

  static void add(String run) {
    STARTED.add(run);
  }

  static Set<String> all() {
    return STARTED;
  }

  /** Before the tasks of a batch. */
  static synchronized void begin(String checkpoint, Begun batch) {
    LAST.put(checkpoint, batch);
  }

  /** The last batch that was begun with a checkpoint. */
  static synchronized Begun last(String checkpoint) {
    return LAST.getOrDefault(checkpoint, Begun.NONE);
  }

  /** For a checkpoint that was deleted since. */
  static synchronized void forget(String checkpoint, Begun batch) {
    LAST.remove(checkpoint, batch);
  }
}
