package dev.headwater.delivery;

import java.nio.charset.StandardCharsets;
import java.util.Collection;

/**
 * What is known of a run: its job, and how exact the row lineage is. The format is that of
 * `model/run_record.py`.
 *
 * @param coverage `exact`, `ranges`, `unknown` or `off`; null if it is not known
 * @param steps because of which it is not exact
 * @param reason why it is off, or null
 */
public record RunRecord(
    String runId,
    String jobName,
    String jobVersion,
    long startedMillis,
    String coverage,
    Collection<String> steps,
    String reason) {
  // Readers take no longer value, and would not find the job.
  private static final int MAX_BYTES = 8 * 1024;
  private static final int MAX_STEPS = 20;
  private static final int MAX_STEP = 100;
  private static final int MAX_REASON = 300;

  /** In JSON; without steps and reason if it would be too large. */
  byte[] value() {
    Bytes job =
        new Bytes()
            .add("{\"job\":\"")
            .addEscaped(jobName.getBytes(StandardCharsets.UTF_8))
            .add("\",\"version\":\"")
            .addEscaped(jobVersion.getBytes(StandardCharsets.UTF_8))
            .add("\",\"started\":")
            .add(startedMillis);
    if (coverage == null) {
      return job.add('}').toArray();
    }
    byte[] known = job.add(",\"coverage\":").add(quoted(coverage)).toArray();
    byte[] details = details();
    Bytes value = new Bytes().add(known);
    return (known.length + details.length < MAX_BYTES ? value.add(details) : value)
        .add('}')
        .toArray();
  }

  private byte[] details() {
    Bytes details = new Bytes();
    if (!steps.isEmpty()) {
      details.add(",\"steps\":[");
      String separator = "";
      for (String step : steps.stream().limit(MAX_STEPS).toList()) {
        details.add(separator).add(quoted(cut(step, MAX_STEP)));
        separator = ",";
      }
      details.add(']');
    }
    if (reason != null) {
      String first = reason.lines().findFirst().orElse("");
      details.add(",\"reason\":").add(quoted(cut(first, MAX_REASON)));
    }
    return details.toArray();
  }

  private static String cut(String text, int length) {
    return text.length() <= length ? text : text.substring(0, length);
  }

  private static byte[] quoted(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    return new Bytes().add('"').addEscaped(bytes).add('"').toArray();
  }
}
