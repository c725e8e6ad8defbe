package dev.headwater.columns;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.headwater.LocalSpark;
import java.io.IOException;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Column lineage of real plans; what Python makes of it: `tests/integration`. */
class ColumnLineageTest {
  private static String visits;
  private static String ads;

  @BeforeAll
  static void writeFiles() {
    visits =
        "parquet.`"
            + LocalSpark.parquet("visits", "select 1L id, 'a' page, struct(1 as x) as nested")
            + "`";
    ads = "parquet.`" + LocalSpark.parquet("ads", "select 1L id, 2 cost") + "`";
  }

  private static JsonNode lineage(String sql) throws IOException {
    return new ObjectMapper().readTree(ColumnLineage.json(LocalSpark.analyzed(sql)));
  }

  /** `leaf.path type/subtype` of each input of an output column. */
  private static Set<String> inputs(JsonNode lineage, String column) {
    for (JsonNode each : lineage.get("columns")) {
      if (each.get("name").asText().equals(column)) {
        return texts(each.get("value").get("inputs"));
      }
    }
    throw new AssertionError("no column " + column + " in " + lineage);
  }

  private static Set<String> texts(JsonNode inputs) {
    Set<String> texts = new TreeSet<>();
    for (JsonNode input : inputs) {
      StringBuilder path = new StringBuilder().append(input.get("leaf").asInt());
      input.get("path").forEach(part -> path.append('.').append(part.asText()));
      for (JsonNode step : input.get("transformations")) {
        texts.add(path + " " + step.get("type").asText() + "/" + step.get("subtype").asText());
      }
    }
    return texts;
  }

  @Test
  void aCopiedColumnIsAnIdentity() throws IOException {
    JsonNode lineage = lineage("select id, page as url from " + visits);
    assertEquals(Set.of("0.id DIRECT/IDENTITY"), inputs(lineage, "id"));
    assertEquals(Set.of("0.page DIRECT/IDENTITY"), inputs(lineage, "url"));
    assertTrue(lineage.get("decisive").isEmpty(), lineage.toString());
    assertTrue(lineage.get("opaque").isEmpty(), lineage.toString());
  }

  @Test
  void anExpressionDependsOnAllOfItsColumns() throws IOException {
    JsonNode lineage = lineage("select concat(page, id) as both from " + visits);
    assertEquals(
        Set.of("0.id DIRECT/TRANSFORMATION", "0.page DIRECT/TRANSFORMATION"),
        inputs(lineage, "both"));
  }

  @Test
  void aFieldOfAStructIsFollowed() throws IOException {
    JsonNode lineage = lineage("select nested.x as x from " + visits);
    assertEquals(Set.of("0.nested.x DIRECT/IDENTITY"), inputs(lineage, "x"));
  }

  @Test
  void aJoinHasTheLeavesFromLeftToRightAndItsKeysAreDecisive() throws IOException {
    JsonNode lineage =
        lineage("select page, cost from " + visits + " v join " + ads + " a on v.id = a.id");
    assertEquals(Set.of("0.page DIRECT/IDENTITY"), inputs(lineage, "page"));
    assertEquals(Set.of("1.cost DIRECT/IDENTITY"), inputs(lineage, "cost"));
    assertEquals(
        Set.of("0.id INDIRECT/JOIN", "1.id INDIRECT/JOIN"), texts(lineage.get("decisive")));
  }

  @Test
  void aFilterAndAGroupingAreDecisive() throws IOException {
    JsonNode lineage =
        lineage("select page, sum(id) as n from " + visits + " where nested.x > 0 group by page");
    assertEquals(Set.of("0.id DIRECT/AGGREGATION"), inputs(lineage, "n"));
    assertEquals(
        Set.of("0.nested.x INDIRECT/FILTER", "0.page INDIRECT/GROUP_BY"),
        texts(lineage.get("decisive")));
  }

  @Test
  void aUnionMergesColumnsByPosition() throws IOException {
    JsonNode lineage =
        lineage("select id as a from " + visits + " union all select cost from " + ads);
    Set<String> inputs = inputs(lineage, "a");
    assertTrue(inputs.stream().anyMatch(each -> each.startsWith("0.id ")), inputs.toString());
    assertTrue(inputs.stream().anyMatch(each -> each.startsWith("1.cost ")), inputs.toString());
  }

  @Test
  void aConstantHasNoInputs() throws IOException {
    assertEquals(Set.of(), inputs(lineage("select 1 as one from " + visits), "one"));
  }
}
