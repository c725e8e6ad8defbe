package headwater.lineage;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RowLevelWrite;
import org.apache.spark.sql.catalyst.plans.logical.V2CreateTableAsSelectPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Tables of Spark's catalogs in a plan, whatever the catalog is: the listener knows some kinds of
 * Iceberg catalogs and is silent about others.
 */
final class PlanTables {
  private final Map<String, Map<String, Object>> read = new LinkedHashMap<>();
  private final Map<String, Map<String, Object>> written = new LinkedHashMap<>();
  private final boolean done;

  private PlanTables(boolean done) {
    this.done = done;
  }

  /** A table that the query makes is looked at only when that is done. */
  static PlanTables of(LogicalPlan plan, boolean done) {
    PlanTables tables = new PlanTables(done);
    tables.visit(plan);
    // A merge reads what it changes; that is no input of the job.
    tables.read.keySet().removeAll(tables.written.keySet());
    return tables;
  }

  List<Object> read() {
    return List.copyOf(read.values());
  }

  List<Object> written() {
    return List.copyOf(written.values());
  }

  /** The table under the name that is used here; null where it has none. */
  static String nameOf(DataSourceV2Relation relation) {
    return relation.catalog().isDefined() && relation.identifier().isDefined()
        ? name(relation.catalog().get(), relation.identifier().get())
        : null;
  }

  private void visit(LogicalPlan plan) {
    if (plan instanceof V2WriteCommand write && write.table() instanceof DataSourceV2Relation to) {
      Map<String, Object> told = add(written, to);
      if (told != null) {
        told.put("merged", plan instanceof RowLevelWrite);
        told.put("columns", PlanColumns.of(write.query(), nameOf(to)));
      }
    }
    if (done
        && plan instanceof V2CreateTableAsSelectPlan create
        && create.name() instanceof ResolvedIdentifier made) {
      Map<String, Object> told = add(written, made.catalog(), made.identifier());
      if (told != null) {
        told.put("columns", PlanColumns.of(create.query(), null));
      }
    }
    if (plan instanceof DataSourceV2Relation relation) {
      add(read, relation);
    }
    for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
      visit(child);
    }
    for (Object inner : CollectionConverters.asJava(plan.innerChildren())) {
      if (inner instanceof LogicalPlan innerPlan) {
        visit(innerPlan);
      }
    }
  }

  private static Map<String, Object> add(
      Map<String, Map<String, Object>> to, DataSourceV2Relation relation) {
    if (nameOf(relation) == null) {
      return null;
    }
    return describe(
        to, relation.catalog().get(), relation.identifier().get(), unwrapped(relation.table()));
  }

  private static Map<String, Object> add(
      Map<String, Map<String, Object>> to, CatalogPlugin catalog, Identifier identifier) {
    if (catalog instanceof TableCatalog tables) {
      try {
        return describe(to, catalog, identifier, tables.loadTable(identifier));
      } catch (Exception error) {
        // Not there yet, or the statement failed.
        return null;
      }
    }
    return null;
  }

  private static Table unwrapped(Table table) {
    return table instanceof RowLevelOperationTable operation ? operation.table() : table;
  }

  private static Map<String, Object> describe(
      Map<String, Map<String, Object>> to,
      CatalogPlugin catalog,
      Identifier identifier,
      Table table) {
    Map<String, Object> told = new LinkedHashMap<>();
    told.put("name", name(catalog, identifier));
    told.put("catalog", catalog.name());
    told.put("provider", table.properties().get("provider"));
    told.put("location", table.properties().get("location"));
    List<Map<String, String>> fields = new ArrayList<>();
    for (Column column : table.columns()) {
      fields.add(Map.of("name", column.name(), "type", column.dataType().typeName()));
    }
    told.put("fields", fields);
    to.putIfAbsent(name(catalog, identifier), told);
    return told;
  }

  private static String name(CatalogPlugin catalog, Identifier identifier) {
    List<String> name = new ArrayList<>();
    name.add(catalog.name());
    name.addAll(List.of(identifier.namespace()));
    name.add(identifier.name());
    return String.join(".", name);
  }
}
