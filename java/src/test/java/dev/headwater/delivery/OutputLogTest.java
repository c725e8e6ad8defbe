package dev.headwater.delivery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The log of exactly-once delivery in a checkpoint. */
class OutputLogTest {
  @TempDir Path checkpoint;

  private OutputLog open() {
    return new OutputLog(checkpoint.toString(), new Configuration());
  }

  private static OutputLog.Entry entry(String run, long batch) {
    OutputLog.Snapshot snapshot = new OutputLog.Snapshot(batch, Map.of(0, 17L, 3, 4L));
    return new OutputLog.Entry(
        1, run, List.of("before", run), "job", "out", "id", true, 5000, List.of(snapshot));
  }

  @Test
  void theNewestEntryIsReadAndOldOnesAreRemoved() throws IOException {
    assertNull(open().read());
    OutputLog log = open();
    for (int batch = 0; batch < 20; batch++) {
      log.add(entry("run", batch));
    }
    assertEquals(entry("run", 19), open().read());
    try (var files = Files.list(checkpoint.resolve("headwater/exactly-once"))) {
      assertTrue(files.filter(each -> !each.toString().endsWith(".crc")).count() <= 5);
    }
  }

  @Test
  void ofTwoDriversOnlyTheLaterOneGoesOn() throws IOException {
    OutputLog first = open();
    first.add(entry("first", 0));
    OutputLog second = open();
    second.read();
    second.add(entry("second", 0));
    assertThrows(ExactlyOnceException.class, () -> first.add(entry("first", 1)));
    assertEquals("second", open().read().run());
  }

  @Test
  void anEntryThatIsDamagedOrOfALaterVersionIsRefused() throws IOException {
    for (String content : List.of("", "{\"version\":1,\"run\":", "{\"version\":2}")) {
      Path folder = Files.createDirectories(checkpoint.resolve("headwater/exactly-once"));
      Files.writeString(folder.resolve("1"), content);
      assertThrows(ExactlyOnceException.class, () -> open().read(), content);
    }
  }

  @Test
  void aBatchIsInterruptedIfSparkHasStartedAndNotCommittedIt() throws IOException {
    assertEquals(new OutputLog.Progress(-1, -1), open().progress());
    for (String file : List.of("offsets/9", "offsets/10", "commits/9", "offsets/.11.tmp")) {
      Files.createDirectories(checkpoint.resolve(file).getParent());
      Files.writeString(checkpoint.resolve(file), "v1");
    }
    assertEquals(new OutputLog.Progress(10, 9), open().progress());
    assertTrue(open().progress().isInterrupted());
  }
}
