package dev.headwater.rowlineage;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Property;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The status of queries whose foreachBatch writes. */
class RowLineageStatusTest {
  private final Logger logger = (Logger) LogManager.getLogger("dev.headwater.rowlineage");
  private final Lines lines = new Lines();
  private final Level level = logger.getLevel();
  private final QueryRun query = new QueryRun("in_batches", UUID.randomUUID().toString());

  private static final class Lines extends AbstractAppender {
    private final List<String> all = new ArrayList<>();

    Lines() {
      super("lines", null, null, true, Property.EMPTY_ARRAY);
    }

    @Override
    public void append(LogEvent event) {
      all.add(event.getMessage().getFormattedMessage());
    }
  }

  @BeforeEach
  void start() {
    RowLineageStatus.on(query.name(), new Coverage(), null, query.runId(), List.of()).report();
    lines.start();
    logger.addAppender(lines);
    logger.setLevel(Level.INFO);
  }

  @AfterEach
  void end() {
    logger.removeAppender(lines);
    logger.setLevel(level);
    RowLineageStatus.forget(query.name());
  }

  private String status() throws IOException {
    JsonNode found = new ObjectMapper().readTree(RowLineageStatus.json(query.name()));
    return found.get("kind").asText() + found.get("steps") + found.get("reason");
  }

  @Test
  void writesWithoutAPlaceForLineageAreReportedOnce() throws IOException {
    for (int batch = 0; batch < 3; batch++) {
      RowLineageStatus.leftAlone(query, "JdbcRelationProvider");
    }
    assertEquals("off[]\"JdbcRelationProvider has no column for it\"", status());
    assertEquals(1, lines.all.size());
    for (int batch = 0; batch < 3; batch++) {
      RowLineageStatus.written(query, new Coverage());
      RowLineageStatus.leftAlone(query, "JdbcRelationProvider");
    }
    assertEquals("unknown[\"write with JdbcRelationProvider\"]null", status());
    assertEquals(2, lines.all.size());
  }

  @Test
  void aWriteThatFailsInEveryMicroBatchIsLoggedOnce() throws IOException {
    for (int batch = 0; batch < 3; batch++) {
      RowLineageStatus.off(query.name(), "column n#" + batch + " is missing").reportOnce();
      RowLineageStatus.written(query, new Coverage());
    }
    assertEquals("off[]\"column n#0 is missing\"", status());
    assertEquals(
        List.of("row lineage of query 'in_batches' is off: column n#0 is missing"), lines.all);
  }

  @Test
  void exactWritesAreNotReported() throws IOException {
    RowLineageStatus.written(query, new Coverage());
    assertEquals("exact[]null", status());
    assertEquals(List.of(), lines.all);
  }

  @Test
  void writesOfAnEarlierRunDoNotChangeTheStatus() throws IOException {
    RowLineageStatus.leftAlone(new QueryRun(query.name(), "run-0"), "JdbcRelationProvider");
    assertEquals("exact[]null", status());
  }

  @Test
  void theReasonForSparksSinkIsKept() throws IOException {
    RowLineageStatus.on(query.name(), new Coverage(), "tokens", query.runId(), List.of()).report();
    assertEquals("exact[]\"tokens\"", status());
    assertEquals(
        List.of("row lineage of query 'in_batches': exact, with sink=headers: tokens"), lines.all);
  }
}
