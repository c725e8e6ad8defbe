package dev.headwater.delivery;

import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.util.SerializableConfiguration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tasks of a run that another one has replaced. */
class RunFenceTest {
  @TempDir Path checkpoint;

  private RunFence fence(String run) {
    SerializableConfiguration configuration = new SerializableConfiguration(new Configuration());
    return new RunFence(configuration, checkpoint.toString(), run);
  }

  private void start(String run) throws IOException {
    OutputLog log = new OutputLog(checkpoint.toString(), new Configuration());
    log.read();
    log.add(
        new OutputLog.Entry(
            OutputLog.FORMAT_VERSION, run, List.of(run), "job", "out", "id", false, 0, List.of()));
  }

  @Test
  void aTaskStopsAfterALaterRunHasStarted() throws IOException {
    start("first of fence");
    fence("first of fence").check();
    start("second of fence");
    fence("second of fence").check();
    assertThrows(ExactlyOnceException.class, () -> fence("zombie of fence").check());
    assertThrows(ExactlyOnceException.class, () -> fence("first of fence").read());
  }

  @Test
  void aTaskStopsAfterTheLogWasRemoved() {
    assertThrows(ExactlyOnceException.class, () -> fence("without a log").check());
  }
}
