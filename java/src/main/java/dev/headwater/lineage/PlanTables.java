package dev.headwater.lineage;

import dev.headwater.compat.CollectionConverters;
import dev.headwater.compat.TableVersion;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceData;
import org.apache.spark.sql.catalyst.plans.logical.RowLevelWrite;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.V2CreateTableAsSelectPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructType;

/**
 * Tables of all Spark catalogs in a plan. The listener supports only some kinds of Iceberg
 * catalogs.
 */
final class PlanTables {
  /** Internal catalogs of Iceberg, such as for rewriting data files. */
  private static final Set<String> INTERNAL =
      Set.of("SparkRewriteTableCatalog", "SparkCachedTableCatalog");

  /** Delta commands that change rows and that the listener does not support. */
  private static final Set<String> DELTA_CHANGES =
      Set.of(
          "org.apache.spark.sql.delta.commands.UpdateCommand",
          "org.apache.spark.sql.delta.commands.DeleteCommand");

  /** Iceberg's name for the version of a table that Spark has loaded. */
  private static final Pattern SNAPSHOT =
      Pattern.compile("branch_(?<branch>.*)_snapshot_(?<snapshot>\\d+)");

  private final Map<String, Map<String, Object>> read = new LinkedHashMap<>();
  private final Map<String, Map<String, Object>> written = new LinkedHashMap<>();
  private final boolean done;

  private PlanTables(boolean done) {
    this.done = done;
  }

  /** `done`: the query has ended, and a table that it creates exists. */
  static PlanTables of(LogicalPlan plan, boolean done) {
    PlanTables tables = new PlanTables(done);
    tables.visit(plan);
    tables.written.forEach(tables::markSelf);
    return tables;
  }

  /** A merge reads its target, which is not an input; INSERT from itself has the table as input. */
  private void markSelf(String name, Map<String, Object> entry) {
    boolean merged = Boolean.TRUE.equals(entry.get("merged"));
    entry.put("self", !merged && read.containsKey(name));
    if (merged) {
      read.remove(name);
    }
  }

  boolean isEmpty() {
    return read.isEmpty() && written.isEmpty();
  }

  List<Object> read() {
    return List.copyOf(read.values());
  }

  List<Object> written() {
    return List.copyOf(written.values());
  }

  /** The canonical name of the table; null if it has none. */
  static String nameOf(DataSourceV2Relation relation) {
    return relation.catalog().isDefined()
            && relation.identifier().isDefined()
            && !INTERNAL.contains(relation.catalog().get().getClass().getSimpleName())
        ? name(relation.catalog().get(), relation.identifier().get())
        : null;
  }

  /**
   * Whether the plan adds or changes rows of an Iceberg table and reads only files and Iceberg
   * tables: then it has everything, and the listener's slow analysis is skipped.
   */
  static boolean isAllOf(LogicalPlan plan) {
    if (isDeltaChange(plan)) {
      return true;
    }
    boolean plain = plan instanceof AppendData append && hasOnlyNames(append.query());
    // The listener's column lineage of a merge is not used.
    return (plain || plan instanceof ReplaceData)
        && plan instanceof V2WriteCommand write
        && write.table() instanceof DataSourceV2Relation to
        && isIceberg(to)
        && CollectionConverters.asJava(write.query().subqueriesAll()).isEmpty()
        && hasKnownSources(write.query());
  }

  /** Steps that do not filter rows; for others the listener reports the columns they use. */
  private static boolean hasOnlyNames(LogicalPlan plan) {
    boolean names =
        plan instanceof Project || plan instanceof SubqueryAlias || plan instanceof View;
    List<LogicalPlan> children = CollectionConverters.asJava(plan.children());
    return children.isEmpty() || (names && children.stream().allMatch(PlanTables::hasOnlyNames));
  }

  private static boolean hasKnownSources(LogicalPlan plan) {
    List<LogicalPlan> children = CollectionConverters.asJava(plan.children());
    if (!children.isEmpty()) {
      return children.stream().allMatch(PlanTables::hasKnownSources);
    }
    if (plan instanceof LogicalRelation relation) {
      // The listener knows the further names of a catalog table. A relation with another file
      // index, such as Delta's, is a table.
      return relation.relation() instanceof HadoopFsRelation files
          && files.location() instanceof InMemoryFileIndex
          && relation.catalogTable().isEmpty();
    }
    return plan instanceof DataSourceV2Relation relation
        ? isIceberg(relation)
        : plan instanceof LocalRelation || plan instanceof Range;
  }

  private static boolean isIceberg(DataSourceV2Relation relation) {
    return nameOf(relation) != null
        && "iceberg".equals(unwrapped(relation.table()).properties().get("provider"));
  }

  private void visit(LogicalPlan plan) {
    if (plan instanceof V2WriteCommand write && write.table() instanceof DataSourceV2Relation to) {
      Map<String, Object> entry = add(written, to);
      if (entry != null) {
        entry.put("merged", plan instanceof RowLevelWrite);
        // With delete files the task metrics do not count the changed rows.
        entry.put("uncounted", plan instanceof WriteDelta);
        String self = plan instanceof RowLevelWrite ? nameOf(to) : null;
        entry.put("lineage", WriteColumns.of(write.query(), self));
      }
    }
    if (plan instanceof InsertIntoHadoopFsRelationCommand files) {
      Map<String, Object> entry = addFiles(files.outputPath(), files.query().schema());
      entry.put("lineage", WriteColumns.of(files.query(), null));
    } else if (isDeltaChange(plan)) {
      addChanged(plan);
    }
    if (done
        && plan instanceof V2CreateTableAsSelectPlan create
        && create.name() instanceof ResolvedIdentifier created) {
      Map<String, Object> entry = add(written, created.catalog(), created.identifier());
      if (entry != null) {
        entry.put("lineage", WriteColumns.of(create.query(), null));
      }
    }
    if (plan instanceof DataSourceV2Relation relation) {
      Map<String, Object> entry = add(read, relation);
      if (entry != null) {
        entry.put("version", snapshotOf(unwrapped(relation.table())));
      }
    }
    for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
      visit(child);
    }
    for (Object inner : innerPlans(plan)) {
      if (inner instanceof LogicalPlan innerPlan) {
        visit(innerPlan);
      }
    }
  }

  /** Plans inside a node; those of Delta commands may be among its constructor arguments. */
  private static Iterable<?> innerPlans(LogicalPlan plan) {
    List<?> inner = CollectionConverters.asJava(plan.innerChildren());
    boolean closed = inner.isEmpty() && CollectionConverters.asJava(plan.children()).isEmpty();
    return closed && plan instanceof Command
        ? CollectionConverters.asJava(plan.productIterator())
        : inner;
  }

  /** Whether this is an UPDATE or DELETE of a Delta table. */
  static boolean isDeltaChange(LogicalPlan plan) {
    return DELTA_CHANGES.contains(plan.getClass().getName());
  }

  private void addChanged(LogicalPlan command) {
    for (Object target : CollectionConverters.asJava(command.innerChildren())) {
      if (target instanceof LogicalPlan plan) {
        for (LogicalPlan leaf : CollectionConverters.asJava(plan.collectLeaves())) {
          if (leaf instanceof LogicalRelation relation
              && relation.relation() instanceof HadoopFsRelation files) {
            Path folder = CollectionConverters.asJava(files.location().rootPaths()).get(0);
            addFiles(folder, files.schema()).put("merged", true);
          }
        }
      }
    }
  }

  private Map<String, Object> addFiles(Path folder, StructType columns) {
    Map<String, Object> entry = new LinkedHashMap<>();
    entry.put("location", folder.toString());
    entry.put("fields", WriteColumns.fields(columns));
    written.put(folder.toString(), entry);
    return entry;
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
        Table table = tables.loadTable(identifier);
        // Delta tables are named by their folder; without it, use the listener's name.
        return "delta".equals(table.properties().get("provider"))
                && table.properties().get("location") == null
            ? null
            : describe(to, catalog, identifier, table);
      } catch (Exception error) {
        // The table does not exist yet, or the statement failed.
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
    Map<String, Object> entry = new LinkedHashMap<>();
    entry.put("name", name(catalog, identifier));
    entry.put("catalog", catalog.name());
    entry.put("provider", table.properties().get("provider"));
    entry.put("location", table.properties().get("location"));
    entry.put("version", latestOf(table));
    entry.put("fields", WriteColumns.fields(CatalogV2Util.v2ColumnsToStructType(table.columns())));
    to.putIfAbsent(name(catalog, identifier), entry);
    return entry;
  }

  /** The snapshot that a query reads, not necessarily the latest; null if unknown. */
  private static String snapshotOf(Table table) {
    Matcher match = SNAPSHOT.matcher(String.valueOf(TableVersion.of(table)));
    return match.matches() ? match.group("snapshot") : null;
  }

  /** The latest snapshot of a table after a write; null for a branch. */
  private static String latestOf(Table table) {
    Matcher match = SNAPSHOT.matcher(String.valueOf(TableVersion.of(table)));
    String snapshot = table.properties().get("current-snapshot-id");
    boolean onBranch = match.matches() && !match.group("branch").equals("null");
    return onBranch || "none".equals(snapshot) ? null : snapshot;
  }

  private static String name(CatalogPlugin catalog, Identifier identifier) {
    List<String> name = new ArrayList<>();
    name.add(catalog.name());
    name.addAll(List.of(identifier.namespace()));
    name.add(identifier.name());
    return String.join(".", name);
  }
}
