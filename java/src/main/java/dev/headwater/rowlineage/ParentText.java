package dev.headwater.rowlineage;

import org.apache.spark.unsafe.types.UTF8String;

/**
 * The text of parents, separated by commas:
 *
 * <ul>
 *   <li>`visits/0@17`, a record
 *   <li>`visits/0@17..20`, records with consecutive offsets
 *   <li>`~visits/0@17..20`, an unknown part of these records
 *   <li>`?`, unknown parents
 * </ul>
 *
 * <p>Any other text is kept as it is: a job may have made it, and readers of the header report it.
 */
final class ParentText {
  static final char WITHIN = '~';
  static final String TO = "..";
  // Addresses of 10^9 parents exceed the size of a text in Java.
  private static final long MAX_RANGE = 1_000_000_000;

  private ParentText() {}

  static void parse(String text, ParentSet parents) {
    int begin = 0;
    while (begin <= text.length()) {
      int comma = text.indexOf(',', begin);
      int end = comma < 0 ? text.length() : comma;
      if (end > begin) {
        parseItem(text.substring(begin, end), parents);
      }
      begin = end + 1;
    }
  }

  private static void parseItem(String item, ParentSet parents) {
    if (item.equals("-")) {
      return; // No parents.
    }
    if (!isAddress(item, parents)) {
      parents.addOther(item);
    }
  }

  private static boolean isAddress(String item, ParentSet parents) {
    int at = item.lastIndexOf('@');
    int slash = item.lastIndexOf('/', at);
    boolean within = item.charAt(0) == WITHIN;
    int topicBegin = within ? 1 : 0;
    long partition = number(item, slash + 1, at);
    if (slash <= topicBegin || partition < 0 || partition > Integer.MAX_VALUE) {
      return false;
    }
    int to = item.indexOf(TO, at);
    long first = number(item, at + 1, to < 0 ? item.length() : to);
    long last = to < 0 ? first : number(item, to + TO.length(), item.length());
    if (first < 0 || last < first || within && to < 0 || !within && last - first > MAX_RANGE) {
      return false;
    }
    UTF8String topic = UTF8String.fromString(item.substring(topicBegin, slash));
    ParentSet.Parents all = parents.in(topic, (int) partition);
    if (within) {
      all.ranges().add(first, last);
    } else {
      all.offsets().add(first, last);
    }
    return true;
  }

  /** The number between two positions, or -1 if it is not one in its only decimal form. */
  private static long number(String text, int begin, int end) {
    int length = end - begin;
    if (length < 1 || length > 19 || length > 1 && text.charAt(begin) == '0') {
      return -1;
    }
    long number = 0;
    for (int i = begin; i < end; i++) {
      char digit = text.charAt(i);
      if (digit < '0' || digit > '9') {
        return -1;
      }
      // Negative after an overflow: 19 digits are less than 2^64.
      number = number * 10 + (digit - '0');
    }
    return Math.max(number, -1);
  }
}
