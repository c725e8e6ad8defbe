package dev.headwater.delivery;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.kafka.common.KafkaException;
import org.junit.jupiter.api.Test;

class CommittedBatchesTest {
  @Test
  void aBatchThatTheCheckpointHasNotStartedIsRefusedWithBothNumbers() {
    KafkaException refused =
        assertThrows(
            KafkaException.class, () -> CommittedBatches.refuseOlder("file:/checkpoint", 3, 4));
    assertTrue(
        refused
            .getMessage()
            .startsWith(
                "file:/checkpoint is older than the output: its newest batch is 3, but the output"
                    + " has batch 4"),
        refused.getMessage());
  }

  @Test
  void anInterruptedBatchThatIsCommittedAndAnEarlierOneAreNot() {
    assertDoesNotThrow(() -> CommittedBatches.refuseOlder("file:/checkpoint", 3, 3));
    assertDoesNotThrow(() -> CommittedBatches.refuseOlder("file:/checkpoint", 3, 2));
    assertDoesNotThrow(() -> CommittedBatches.refuseOlder("file:/checkpoint", -1, -1));
  }
}
