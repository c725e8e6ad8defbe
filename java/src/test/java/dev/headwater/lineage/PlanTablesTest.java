package dev.headwater.lineage;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.headwater.LocalSpark;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The tables of plans with real Iceberg tables. */
class PlanTablesTest {
  private static String files;

  @BeforeAll
  static void createTables() {
    LocalSpark.run("create table if not exists lake.db.visits (id bigint, page string)");
    LocalSpark.run("create table if not exists lake.db.pages (id bigint, page string)");
    LocalSpark.run("insert into lake.db.pages values (1, 'a')");
    files = "parquet.`" + LocalSpark.parquet("pages", "select 1L id, 'a' page") + "`";
  }

  private static List<Object> names(List<Object> tables) {
    return tables.stream().<Object>map(each -> ((Map<?, ?>) each).get("name")).toList();
  }

  private static Map<?, ?> only(List<Object> tables) {
    assertEquals(1, tables.size(), tables.toString());
    return (Map<?, ?>) tables.get(0);
  }

  @Test
  void anInsertWritesOneTableAndReadsAnother() {
    LogicalPlan plan =
        LocalSpark.analyzed("insert into lake.db.visits select * from lake.db.pages");
    PlanTables tables = PlanTables.of(plan, true);
    assertEquals(List.of("lake.db.pages"), names(tables.read()));
    assertEquals(List.of("lake.db.visits"), names(tables.written()));
    Map<?, ?> written = only(tables.written());
    assertEquals("iceberg", written.get("provider"));
    assertEquals(false, written.get("self"));
    assertEquals(false, written.get("merged"));
    assertEquals(
        List.of(Map.of("name", "id", "type", "long"), Map.of("name", "page", "type", "string")),
        written.get("fields"));
  }

  @Test
  void aTableThatIsReadHasItsSnapshot() {
    LogicalPlan plan =
        LocalSpark.analyzed("insert into lake.db.visits select * from lake.db.pages");
    String version = (String) only(PlanTables.of(plan, true).read()).get("version");
    assertTrue(version.matches("\\d+"), version);
  }

  @Test
  void anInsertFromTheTableItselfHasItAsInput() {
    LogicalPlan plan = LocalSpark.analyzed("insert into lake.db.pages select * from lake.db.pages");
    PlanTables tables = PlanTables.of(plan, true);
    assertEquals(List.of("lake.db.pages"), names(tables.read()));
    assertEquals(true, only(tables.written()).get("self"));
  }

  @Test
  void theTargetOfAMergeIsNotAnInput() {
    LogicalPlan plan =
        LocalSpark.analyzed(
            "merge into lake.db.visits t using lake.db.pages s on t.id = s.id"
                + " when matched then update set page = s.page when not matched then insert *");
    PlanTables tables = PlanTables.of(plan, true);
    assertEquals(List.of("lake.db.pages"), names(tables.read()));
    assertEquals(true, only(tables.written()).get("merged"));
    assertEquals(false, only(tables.written()).get("self"));
  }

  @Test
  void aQueryThatWritesNothingHasOnlyInputs() {
    PlanTables tables = PlanTables.of(LocalSpark.analyzed("select * from lake.db.pages"), true);
    assertEquals(List.of("lake.db.pages"), names(tables.read()));
    assertEquals(List.of(), tables.written());
  }

  @Test
  void thePlanHasEverythingIfRowsAreAppendedUnchanged() {
    String insert = "insert into lake.db.visits select id, page from ";
    assertTrue(PlanTables.isAllOf(LocalSpark.analyzed(insert + "lake.db.pages")));
    assertTrue(PlanTables.isAllOf(LocalSpark.analyzed(insert + files)));
    assertFalse(PlanTables.isAllOf(LocalSpark.analyzed(insert + files + " where id > 0")));
    assertFalse(
        PlanTables.isAllOf(
            LocalSpark.analyzed("insert overwrite lake.db.visits select * from " + files)));
  }
}
