package dev.headwater.rowlineage;

import static dev.headwater.rowlineage.LineageStruct.OFFSET;
import static dev.headwater.rowlineage.LineageStruct.ORDINAL;
import static dev.headwater.rowlineage.LineageStruct.PARENTS;
import static dev.headwater.rowlineage.LineageStruct.PARTITION;
import static dev.headwater.rowlineage.LineageStruct.REST;
import static dev.headwater.rowlineage.LineageStruct.TOPIC;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskCompletionListener;

/**
 * The rows that a task has passed to a function which Spark can't analyze, such as of
 * `mapInPandas`.
 *
 * <p>A row that the function returns was made of rows that it has received before, and of no others
 * unless it keeps state: the offsets of these rows, as ranges, are a superset of the parents. A
 * function that receives the next row only after it has returned all rows of the last one
 * (`flatMap`) has exact parents.
 */
public final class PulledRows {
  private static final int MAX_RANGES = LineageFunctions.MAX_LISTED_PARENTS;
  private static final Map<String, PulledRows> OF_TASKS = new ConcurrentHashMap<>();

  private final TreeMap<String, long[]> ranges = new TreeMap<>();
  private boolean unknown;
  private InternalRow last;
  private long position;

  private PulledRows() {}

  /**
   * Called for each row before the function receives it; always true, as a condition of a filter.
   */
  public static boolean pull(UTF8String step, boolean oneByOne, InternalRow lineage) {
    PulledRows pulled = ofTask(step, true);
    synchronized (pulled) {
      if (oneByOne) {
        // Spark reuses the row.
        pulled.last = lineage == null ? null : lineage.copy();
        pulled.position = 0;
      } else if (lineage != null) {
        pulled.add(lineage);
      }
    }
    return true;
  }

  /** The lineage of the next row of a `flatMap`. */
  public static InternalRow ofLast(UTF8String step) {
    PulledRows pulled = ofTask(step, false);
    if (pulled == null) {
      return unknown();
    }
    synchronized (pulled) {
      return pulled.last == null ? null : numbered(pulled.last, pulled.position++);
    }
  }

  /**
   * The lineage of a row that the function returns: within the rows that it has received.
   *
   * @param stateful whether it may also be made of rows of earlier batches
   */
  public static InternalRow within(UTF8String step, boolean stateful) {
    PulledRows pulled = ofTask(step, false);
    if (pulled == null) {
      // Nothing was received in this task: a timeout, or a function that runs in another task.
      return unknown();
    }
    GenericInternalRow row = LineageFunctions.row(false);
    synchronized (pulled) {
      row.update(PARENTS, UTF8String.fromString(pulled.text(stateful)));
    }
    return row;
  }

  private static InternalRow unknown() {
    GenericInternalRow row = LineageFunctions.row(false);
    row.update(PARENTS, UTF8String.fromString("?"));
    return row;
  }

  private static InternalRow numbered(InternalRow lineage, long position) {
    GenericInternalRow row = LineageFunctions.fieldsOf(lineage, true);
    row.setLong(ORDINAL, LineageFunctions.ordinal(LineageFunctions.ordinalOf(lineage), position));
    return row;
  }

  private void add(InternalRow lineage) {
    if (lineage.isNullAt(PARENTS)) {
      if (!lineage.isNullAt(TOPIC)) {
        String place = lineage.getUTF8String(TOPIC) + "/" + lineage.getInt(PARTITION);
        add(place, lineage.getLong(OFFSET), lineage.getLong(OFFSET));
      }
      return;
    }
    addAll(lineage.getUTF8String(PARENTS).toString());
    if (!lineage.isNullAt(REST)) {
      addAll(lineage.getUTF8String(REST).toString());
    }
  }

  /** Addresses, and ranges of a step before. */
  private void addAll(String items) {
    for (String item : items.split(",")) {
      int at = item.lastIndexOf('@');
      if (at < 0) {
        unknown = true;
        continue;
      }
      String place = item.substring(item.startsWith("~") ? 1 : 0, at);
      String[] ends = item.substring(at + 1).split("\\.\\.");
      add(place, Long.parseLong(ends[0]), Long.parseLong(ends[ends.length - 1]));
    }
  }

  private void add(String place, long first, long end) {
    long[] range = ranges.get(place);
    if (range != null) {
      range[0] = Math.min(range[0], first);
      range[1] = Math.max(range[1], end);
    } else if (ranges.size() < MAX_RANGES) {
      ranges.put(place, new long[] {first, end});
    } else {
      unknown = true;
    }
  }

  private String text(boolean stateful) {
    StringBuilder text = new StringBuilder();
    ranges.forEach(
        (place, range) ->
            text.append(text.isEmpty() ? "~" : ",~")
                .append(place)
                .append('@')
                .append(range[0])
                .append("..")
                .append(range[1]));
    if (unknown || stateful || text.isEmpty()) {
      text.append(text.isEmpty() ? "?" : ",?");
    }
    return text.toString();
  }

  private static PulledRows ofTask(UTF8String step, boolean create) {
    TaskContext task = TaskContext.get();
    String key = task.taskAttemptId() + " " + step;
    if (!create) {
      return OF_TASKS.get(key);
    }
    return OF_TASKS.computeIfAbsent(
        key,
        name -> {
          TaskCompletionListener end = ended -> OF_TASKS.remove(name);
          task.addTaskCompletionListener(end);
          return new PulledRows();
        });
  }
}
