package dev.headwater.rowlineage;

import java.util.Map;
import java.util.TreeMap;

/** Ranges of offsets of one partition, of which some are parents. Ranges that meet are united. */
final class OffsetRanges {
  /** The action for a range. */
  @FunctionalInterface
  interface Action {
    void accept(long first, long last);
  }

  private final TreeMap<Long, Long> lastByFirst = new TreeMap<>();

  void add(long first, long last) {
    long from = first;
    long to = last;
    // Those that begin at or before the offset after `to`, from the last one.
    long next = to == Long.MAX_VALUE ? to : to + 1;
    Map.Entry<Long, Long> other = lastByFirst.floorEntry(next);
    while (other != null && (other.getValue() >= from || other.getValue() + 1 == from)) {
      lastByFirst.remove(other.getKey());
      from = Math.min(from, other.getKey());
      to = Math.max(to, other.getValue());
      other = lastByFirst.floorEntry(next);
    }
    lastByFirst.put(from, to);
  }

  void add(OffsetRanges other) {
    other.forEach(this::add);
  }

  int size() {
    return lastByFirst.size();
  }

  /** In ascending order. */
  void forEach(Action action) {
    lastByFirst.forEach(action::accept);
  }

  /** One range that contains all. */
  void forHull(Action action) {
    if (!lastByFirst.isEmpty()) {
      action.accept(lastByFirst.firstKey(), lastByFirst.lastEntry().getValue());
    }
  }
}
