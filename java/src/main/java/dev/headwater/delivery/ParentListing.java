package dev.headwater.delivery;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The parents of one record as the items of several records that list them: `visits/0@17` for one
 * parent, `visits/0@17..20` for all records with consecutive offsets.
 *
 * <p>A part has at most a thousand parents, however few items they are: limits of readers count
 * parents. A parent that occurs twice is listed twice, as the header of the record counts it.
 */
final class ParentListing {
  /** The items of one record; {@code consecutive} if some stand for more than one parent. */
  record Part(String items, boolean consecutive) {}

  static final String TO = "..";
  private static final int MAX_PARENTS = 1000;
  private static final int MAX_BYTES = 32 * 1024;
  // Any such number is a long; no partition has as many records.
  private static final int MAX_DIGITS = 18;

  private final List<Part> parts = new ArrayList<>();
  private final StringBuilder items = new StringBuilder();
  private int parents;
  private boolean consecutive;

  private ParentListing() {}

  /** The parts of a text with items separated by commas. */
  static List<Part> of(String unlisted) {
    ParentListing listing = new ParentListing();
    Map<String, Offsets> partitions = new LinkedHashMap<>();
    for (int begin = 0; begin <= unlisted.length(); ) {
      int comma = unlisted.indexOf(',', begin);
      int end = comma < 0 ? unlisted.length() : comma;
      int offset = offsetIn(unlisted, begin, end);
      if (offset < 0) {
        // Ranges with unknown parents, and whatever a job has written into the column.
        listing.add(unlisted.substring(begin, end), 1);
      } else {
        String partition = unlisted.substring(begin, offset);
        long number = Long.parseLong(unlisted, offset, end, 10);
        partitions.computeIfAbsent(partition, any -> new Offsets()).add(number);
      }
      begin = end + 1;
    }
    partitions.forEach(listing::add);
    listing.finish();
    return listing.parts;
  }

  /** Where the offset of an address begins; -1 if the item is something else. */
  private static int offsetIn(String text, int begin, int end) {
    int at = end;
    while (at > begin && text.charAt(at - 1) >= '0' && text.charAt(at - 1) <= '9') {
      at--;
    }
    boolean isNumber = end > at && end - at <= MAX_DIGITS;
    boolean isCanonical = end - at == 1 || at < end && text.charAt(at) != '0';
    boolean isAddress = at > begin && text.charAt(at - 1) == '@';
    return isNumber && isCanonical && isAddress && text.charAt(begin) != Parents.RANGE ? at : -1;
  }

  private void add(String partition, Offsets offsets) {
    long[] sorted = offsets.sorted();
    for (int begin = 0; begin < sorted.length; ) {
      int end = begin + 1;
      int space = MAX_PARENTS - (parents == MAX_PARENTS ? 0 : parents);
      while (end < sorted.length && end - begin < space && sorted[end] == sorted[end - 1] + 1) {
        end++;
      }
      String item = partition + sorted[begin];
      add(end - begin == 1 ? item : item + TO + sorted[end - 1], end - begin);
      begin = end;
    }
  }

  private void add(String item, int count) {
    if (parents + count > MAX_PARENTS || items.length() > MAX_BYTES) {
      finish();
    }
    if (!items.isEmpty()) {
      items.append(',');
    }
    items.append(item);
    parents += count;
    consecutive |= count > 1;
  }

  private void finish() {
    parts.add(new Part(items.toString(), consecutive));
    items.setLength(0);
    parents = 0;
    consecutive = false;
  }

  /** A growing array. */
  private static final class Offsets {
    private long[] all = new long[16];
    private int size;

    void add(long offset) {
      if (size == all.length) {
        all = Arrays.copyOf(all, size * 2);
      }
      all[size++] = offset;
    }

    long[] sorted() {
      long[] sorted = Arrays.copyOf(all, size);
      Arrays.sort(sorted);
      return sorted;
    }
  }
}
