package dev.headwater.delivery;

import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import org.junit.jupiter.api.Test;

/** The output that a query reads after an interrupted batch. */
class OutputTailTest {
  @Test
  void aQueryThatIsStoppedWhileItReadsHasNoProblemWithPermissions() {
    SinkOptions options =
        TestSink.options("topic", "out", "kafka.bootstrap.servers", "localhost:1");
    OutputTail tail = new OutputTail(options);
    Thread.currentThread().interrupt();
    try {
      // Spark takes an interrupted read for the end of the query.
      Throwable cause = assertThrows(UncheckedIOException.class, tail::topicId).getCause();
      assertInstanceOf(InterruptedIOException.class, cause);
      assertTrue(cause.getMessage().contains("was stopped while topic out was read"));
    } finally {
      Thread.interrupted();
    }
  }
}
