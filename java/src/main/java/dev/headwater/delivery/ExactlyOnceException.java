package dev.headwater.delivery;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;

/**
 * Exactly-once delivery was requested and can't be guaranteed. The message names the reason and
 * what to change; a query never goes on with a weaker guarantee.
 */
public final class ExactlyOnceException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private static final String SETTING = "spark.headwater.lineage.delivery=exactly-once: ";

  /** What completes an interrupted batch whose written records can't be determined. */
  static final String WAY_OUT =
      "; to complete the batch with possible duplicates, start the query once with "
          + "delivery=idempotent";

  public ExactlyOnceException(String reason) {
    super(SETTING + reason);
  }

  public ExactlyOnceException(String reason, Throwable cause) {
    super(SETTING + reason, cause);
  }

  /** For a query that was stopped: Spark takes this for the end of the query, not for an error. */
  static UncheckedIOException stopped(String when, Throwable cause) {
    InterruptedIOException stopped =
        new InterruptedIOException(
            SETTING + "the query was stopped " + when + "; its next start completes the batch");
    stopped.initCause(cause);
    return new UncheckedIOException(stopped);
  }
}
