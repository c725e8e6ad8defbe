package dev.headwater.archive;

import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.time.YearMonth;
import org.apache.spark.sql.api.java.UDF1;

/**
 * The event time in a field of a JSON object, in microseconds since 1970, from its bytes.
 *
 * <p>Spark's functions parse the complete value, which costs more than writing it. This one stops
 * at the field. It handles only the common case: a field of the outermost object with a date and
 * time in ISO 8601, followed by Z, an offset or nothing. For everything else it returns null, and
 * the caller uses Spark.
 */
public final class EventTime implements UDF1<byte[], Long> {
  private static final long serialVersionUID = 1L;
  private static final long SECOND = 1_000_000L;
  private static final int NO_ZONE = Integer.MIN_VALUE;

  private final byte[] field;

  public EventTime(String field) {
    this.field = field.getBytes(StandardCharsets.UTF_8);
  }

  @Override
  public Long call(byte[] json) {
    if (json == null) {
      return null;
    }
    int at = skipSpace(json, 0);
    if (!is(json, at, '{')) {
      return null;
    }
    at = skipSpace(json, at + 1);
    while (is(json, at, '"')) {
      int end = endOfText(json, at);
      if (end < 0) {
        return null;
      }
      boolean found = isField(json, at + 1, end);
      at = skipSpace(json, end + 1);
      if (!is(json, at, ':')) {
        return null;
      }
      at = skipSpace(json, at + 1);
      if (found) {
        return is(json, at, '"') ? time(json, at + 1, endOfText(json, at)) : null;
      }
      at = skipSpace(json, skipValue(json, at));
      if (!is(json, at, ',')) {
        return null;
      }
      at = skipSpace(json, at + 1);
    }
    return null;
  }

  private boolean isField(byte[] json, int begin, int end) {
    if (end - begin != field.length) {
      return false;
    }
    for (int i = 0; i < field.length; i++) {
      if (json[begin + i] != field[i]) {
        return false;
      }
    }
    return true;
  }

  private static boolean is(byte[] json, int at, char letter) {
    return at >= 0 && at < json.length && json[at] == letter;
  }

  private static int skipSpace(byte[] json, int from) {
    int at = from;
    while (at >= 0 && at < json.length && isSpace(json[at])) {
      at++;
    }
    return at;
  }

  private static boolean isSpace(byte letter) {
    return letter == ' ' || letter == '\n' || letter == '\r' || letter == '\t';
  }

  /** The index of the closing quote; -1 if there is none, or the text has a backslash. */
  private static int endOfText(byte[] json, int begin) {
    for (int at = begin + 1; at < json.length; at++) {
      if (json[at] == '"') {
        return at;
      }
      // Names and values with escapes are left to the parser.
      if (json[at] == '\\') {
        return -1;
      }
    }
    return -1;
  }

  /** The index after a value that is not nested; -1 for a nested or incomplete one. */
  private static int skipValue(byte[] json, int from) {
    if (is(json, from, '"')) {
      int end = endOfText(json, from);
      return end < 0 ? -1 : end + 1;
    }
    int at = from;
    while (at < json.length && json[at] != ',' && json[at] != '}') {
      if (json[at] == '{' || json[at] == '[' || json[at] == '"') {
        return -1;
      }
      at++;
    }
    return at;
  }

  /** Parses `2025-09-04T07:00:00.123456+02:00`; the parts after the minutes are optional. */
  private static Long time(byte[] json, int begin, int end) {
    if (end < begin + 16
        || json[begin + 4] != '-'
        || json[begin + 7] != '-'
        || (json[begin + 10] != 'T' && json[begin + 10] != ' ')
        || json[begin + 13] != ':') {
      return null;
    }
    int year = number(json, begin, 4);
    int month = number(json, begin + 5, 2);
    int day = number(json, begin + 8, 2);
    int hour = number(json, begin + 11, 2);
    int minute = number(json, begin + 14, 2);
    int second = 0;
    long micros = 0;
    int at = begin + 16;
    if (at < end && json[at] == ':') {
      if (at + 3 > end) {
        return null;
      }
      second = number(json, at + 1, 2);
      at += 3;
      if (at < end && json[at] == '.') {
        int digits = 0;
        for (at++; at < end && json[at] >= '0' && json[at] <= '9'; at++) {
          if (digits++ < 6) {
            micros = micros * 10 + json[at] - '0';
          }
        }
        // More digits are left to Spark.
        if (digits == 0 || digits > 6) {
          return null;
        }
        for (; digits < 6; digits++) {
          micros *= 10;
        }
      }
    }
    int zone = zoneSeconds(json, at, end);
    if (year < 1
        || month < 1
        || month > 12
        || day < 1
        || day > daysOf(year, month)
        || hour < 0
        || hour > 23
        || minute < 0
        || minute > 59
        || second < 0
        || second > 59
        || zone == NO_ZONE) {
      return null;
    }
    long days = LocalDate.of(year, month, day).toEpochDay();
    return ((days * 24 + hour) * 60 + minute) * 60 * SECOND
        + (second - (long) zone) * SECOND
        + micros;
  }

  private static int zoneSeconds(byte[] json, int at, int end) {
    if (at == end || (json[at] == 'Z' && at + 1 == end)) {
      return 0;
    }
    boolean hasForm = at + 6 == end && (json[at] == '+' || json[at] == '-') && json[at + 3] == ':';
    int hours = hasForm ? number(json, at + 1, 2) : -1;
    int minutes = hasForm ? number(json, at + 4, 2) : -1;
    // Java supports no zone beyond 18 hours.
    if (hours < 0 || hours > 17 || minutes < 0 || minutes > 59) {
      return NO_ZONE;
    }
    int seconds = (hours * 60 + minutes) * 60;
    return json[at] == '-' ? -seconds : seconds;
  }

  private static int daysOf(int year, int month) {
    return YearMonth.of(year, month).lengthOfMonth();
  }

  private static int number(byte[] json, int begin, int digits) {
    int number = 0;
    for (int at = begin; at < begin + digits; at++) {
      if (at >= json.length || json[at] < '0' || json[at] > '9') {
        return -1;
      }
      number = number * 10 + json[at] - '0';
    }
    return number;
  }
}
