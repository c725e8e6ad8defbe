package dev.headwater.rowlineage;

import java.util.Arrays;
import org.roaringbitmap.longlong.LongConsumer;

/**
 * Offsets in the order of their decimal texts: 1, 10, 11, 2.
 *
 * <p>The ids of records with many parents are hashes of texts in this order, in Python and SQL,
 * too. Numbers with the same count of digits have the same order as their texts, so this merges one
 * sorted part for each count.
 */
final class TextOrder {
  private static final int MAX_DIGITS = 19;
  private static final long[] POWERS = powers();

  private TextOrder() {}

  /** Calls the action for each of the ascending offsets. */
  static void forEach(long[] ascending, LongConsumer action) {
    int[] next = new int[MAX_DIGITS + 2];
    int[] end = new int[MAX_DIGITS + 2];
    for (int digits = 1; digits <= MAX_DIGITS; digits++) {
      next[digits] = digits == 1 ? 0 : end[digits - 1];
      end[digits] = digits == MAX_DIGITS ? ascending.length : indexOf(ascending, POWERS[digits]);
    }
    for (int left = ascending.length; left > 0; left--) {
      int smallest = 0;
      long key = 0;
      for (int digits = 1; digits <= MAX_DIGITS; digits++) {
        if (next[digits] < end[digits]) {
          // As if all had 19 digits, less than 2^64; of equal ones, the shorter text comes first.
          long padded = ascending[next[digits]] * POWERS[MAX_DIGITS - digits];
          if (smallest == 0 || Long.compareUnsigned(padded, key) < 0) {
            smallest = digits;
            key = padded;
          }
        }
      }
      action.accept(ascending[next[smallest]++]);
    }
  }

  private static int indexOf(long[] ascending, long value) {
    int found = Arrays.binarySearch(ascending, value);
    return found < 0 ? -found - 1 : found;
  }

  private static long[] powers() {
    long[] powers = new long[MAX_DIGITS];
    powers[0] = 1;
    for (int i = 1; i < MAX_DIGITS; i++) {
      powers[i] = powers[i - 1] * 10;
    }
    return powers;
  }
}
