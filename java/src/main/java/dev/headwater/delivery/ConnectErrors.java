package dev.headwater.delivery;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.header.Header;
import org.apache.spark.unsafe.types.UTF8String;

/** The error headers of Kafka Connect for records in a dead letter topic. */
final class ConnectErrors {
  static final String PREFIX = "__connect.errors.";

  // A message of any length, such as one that contains the value, must not exceed the limits.
  private static final int MAX_TEXT = 4096;

  private static final Pattern ADDRESS = Pattern.compile("([^,/]+)/(\\d+)@(\\d+)");

  private ConnectErrors() {}

  static List<Header> headers(
      Parents parents, String jobName, String stage, String kind, String message) {
    UTF8String topic = parents.topic();
    return List.of(
        header("topic", topic != null ? topic.toString() : null),
        header("partition", topic != null ? Integer.toString(parents.partition()) : null),
        header("offset", topic != null ? Long.toString(parents.offset()) : null),
        header("connector.name", jobName),
        header("stage", stage),
        header("exception.class.name", kind),
        header("exception.message", message));
  }

  /** For a record that Kafka rejected; the address is that of its parents. */
  static List<Header> ofRejected(String address, String jobName, String kind, String message) {
    Matcher parent = ADDRESS.matcher(address);
    boolean single = parent.matches();
    return List.of(
        header("topic", single ? parent.group(1) : null),
        header("partition", single ? parent.group(2) : null),
        header("offset", single ? parent.group(3) : null),
        header("connector.name", jobName),
        header("stage", "TASK_PUT"),
        header("exception.class.name", kind),
        header("exception.message", message));
  }

  private static Header header(String name, String value) {
    String text = value;
    if (value != null && value.length() > MAX_TEXT) {
      text = value.substring(0, MAX_TEXT) + "…";
    }
    return LineageHeaders.header(PREFIX + name, text);
  }
}
