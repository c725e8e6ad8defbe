package dev.headwater.rowlineage;

import java.util.Arrays;
import org.roaringbitmap.longlong.LongConsumer;
import org.roaringbitmap.longlong.Roaring64NavigableMap;

/**
 * Offsets of one partition, each once.
 *
 * <p>Most groups have a few parents, for which an array is smaller and faster than a bitmap. It is
 * filled without looking for duplicates; once it is full, the offsets go into a compressed bitmap.
 */
final class OffsetSet {
  private static final int FIRST_LENGTH = 4;
  private static final int MAX_LENGTH = 512;
  // Longer ranges go directly into the bitmap.
  private static final int MAX_RANGE = 64;

  private long[] recent = new long[FIRST_LENGTH];
  private int used;
  private Roaring64NavigableMap bitmap;

  void add(long offset) {
    if (used > 0 && recent[used - 1] == offset) {
      return; // Such as rows of one exploded record.
    }
    if (used == recent.length) {
      makeSpace();
    }
    recent[used++] = offset;
  }

  void add(long first, long last) {
    if (last - first < MAX_RANGE) {
      for (long i = 0; i <= last - first; i++) {
        add(first + i);
      }
    } else {
      // Its end is excluded, and the last offset may be the greatest number.
      bitmap().addRange(first, last);
      add(last);
    }
  }

  void add(OffsetSet other) {
    if (other.bitmap != null) {
      bitmap().or(other.bitmap);
    }
    for (int i = 0; i < other.used; i++) {
      add(other.recent[i]);
    }
  }

  long size() {
    collect();
    return bitmap == null ? used : bitmap.getLongCardinality();
  }

  /** In ascending order. */
  void forEach(LongConsumer action) {
    collect();
    if (bitmap != null) {
      bitmap.forEach(action);
      return;
    }
    for (int i = 0; i < used; i++) {
      action.accept(recent[i]);
    }
  }

  /** In ascending order. */
  long[] toArray() {
    collect();
    return bitmap == null ? Arrays.copyOf(recent, used) : bitmap.toArray();
  }

  /** All offsets are in the bitmap or, in order, in the array. */
  private void collect() {
    if (bitmap != null) {
      moveToBitmap();
    } else {
      sortDistinct();
    }
  }

  private void makeSpace() {
    sortDistinct();
    if (used > MAX_LENGTH / 2) {
      moveToBitmap();
    } else if (used > recent.length / 2) {
      recent = Arrays.copyOf(recent, recent.length * 2);
    }
  }

  private void sortDistinct() {
    Arrays.sort(recent, 0, used);
    int kept = 0;
    for (int i = 0; i < used; i++) {
      if (kept == 0 || recent[i] != recent[kept - 1]) {
        recent[kept++] = recent[i];
      }
    }
    used = kept;
  }

  private void moveToBitmap() {
    Roaring64NavigableMap all = bitmap();
    for (int i = 0; i < used; i++) {
      all.addLong(recent[i]);
    }
    used = 0;
  }

  private Roaring64NavigableMap bitmap() {
    if (bitmap == null) {
      bitmap = new Roaring64NavigableMap();
    }
    return bitmap;
  }
}
