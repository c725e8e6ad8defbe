package headwater.lineage;

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
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Tables of Spark's catalogs in a plan, whatever the catalog is: the listener knows some kinds of
 * Iceberg catalogs and is silent about others.
 */
final class PlanTables {
  /** Catalogs that Iceberg makes for itself, such as for the files that it writes anew. */
  private static final Set<String> INSIDE =
      Set.of("SparkRewriteTableCatalog", "SparkCachedTableCatalog");

  /** Commands of Delta's that change rows, and of which the listener says nothing. */
  private static final Set<String> DELTA_CHANGES =
      Set.of(
          "org.apache.spark.sql.delta.commands.UpdateCommand",
          "org.apache.spark.sql.delta.commands.DeleteCommand");

  /** How Iceberg names the version of a table that Spark has loaded. */
  private static final Pattern SNAPSHOT =
      Pattern.compile("branch_(?<branch>.*)_snapshot_(?<snapshot>\\d+)");

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
    tables.written.forEach(tables::tellSelf);
    return tables;
  }

  /** A merge reads what it changes; that is no input of the job, unlike a table added to itself. */
  private void tellSelf(String name, Map<String, Object> told) {
    boolean merged = Boolean.TRUE.equals(told.get("merged"));
    told.put("self", !merged && read.containsKey(name));
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

  /** The table under the name that is used here; null where it has none. */
  static String nameOf(DataSourceV2Relation relation) {
    return relation.catalog().isDefined()
            && relation.identifier().isDefined()
            && !INSIDE.contains(relation.catalog().get().getClass().getSimpleName())
        ? name(relation.catalog().get(), relation.identifier().get())
        : null;
  }

  /**
   * Whether rows are added to an Iceberg table, or changed in it, from files and such tables alone:
   * all of that is known here, and the listener, which takes a while to look, need not.
   */
  static boolean isAllOf(LogicalPlan plan) {
    if (isDeltaChange(plan)) {
      return true;
    }
    boolean plain = plan instanceof AppendData append && hasOnlyNames(append.query());
    // What the listener says of a merge's columns is not used.
    return (plain || plan instanceof ReplaceData)
        && plan instanceof V2WriteCommand write
        && write.table() instanceof DataSourceV2Relation to
        && isIceberg(to)
        && CollectionConverters.asJava(write.query().subqueriesAll()).isEmpty()
        && hasKnownSources(write.query());
  }

  /** Steps that decide over no rows: of others the listener says which columns they look at. */
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
      // A table of a catalog has further names, which the listener knows.
      // One that has its own list of files, such as Delta's, is more than files.
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
      Map<String, Object> told = add(written, to);
      if (told != null) {
        told.put("merged", plan instanceof RowLevelWrite);
        // Of rows that are marked as deleted, and of those beside them, Iceberg counts none.
        told.put("uncounted", plan instanceof WriteDelta);
        String self = plan instanceof RowLevelWrite ? nameOf(to) : null;
        told.put("columns", PlanColumns.of(write.query(), self));
      }
    }
    if (plan instanceof InsertIntoHadoopFsRelationCommand files) {
      Map<String, Object> told = addFiles(files.outputPath(), files.query().schema());
      told.put("columns", PlanColumns.of(files.query(), null));
    } else if (isDeltaChange(plan)) {
      addChanged(plan);
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
      Map<String, Object> told = add(read, relation);
      if (told != null) {
        told.put("version", snapshotOf(unwrapped(relation.table())));
      }
    }
    for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
      visit(child);
    }
    for (Object inner : inside(plan)) {
      if (inner instanceof LogicalPlan innerPlan) {
        visit(innerPlan);
      }
    }
  }

  /** Further plans of a step; those of a command of Delta's may be among all else that it holds. */
  private static Iterable<?> inside(LogicalPlan plan) {
    List<?> inner = CollectionConverters.asJava(plan.innerChildren());
    boolean closed = inner.isEmpty() && CollectionConverters.asJava(plan.children()).isEmpty();
    return closed && plan instanceof Command
        ? CollectionConverters.asJava(plan.productIterator().toSeq())
        : inner;
  }

  /** Whether this changes rows of a Delta table in their place. */
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
    Map<String, Object> told = new LinkedHashMap<>();
    told.put("location", folder.toString());
    told.put("fields", fields(columns));
    written.put(folder.toString(), told);
    return told;
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
        // Without its folder it would have another name than where it is read; the listener has it.
        return "delta".equals(table.properties().get("provider"))
                && table.properties().get("location") == null
            ? null
            : describe(to, catalog, identifier, table);
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
    told.put("version", newestOf(table));
    told.put("fields", fields(CatalogV2Util.v2ColumnsToStructType(table.columns())));
    to.putIfAbsent(name(catalog, identifier), told);
    return told;
  }

  /** The snapshot that a query reads, which need not be the newest; null if nobody can say. */
  private static String snapshotOf(Table table) {
    Matcher found = SNAPSHOT.matcher(String.valueOf(table.version()));
    return found.matches() ? found.group("snapshot") : null;
  }

  /** The newest snapshot of a table after a write to it; that of a branch has no name here. */
  private static String newestOf(Table table) {
    Matcher found = SNAPSHOT.matcher(String.valueOf(table.version()));
    String snapshot = table.properties().get("current-snapshot-id");
    boolean onBranch = found.matches() && !found.group("branch").equals("null");
    return onBranch || "none".equals(snapshot) ? null : snapshot;
  }

  static List<Map<String, String>> fields(StructType columns) {
    List<Map<String, String>> told = new ArrayList<>();
    for (StructField column : columns.fields()) {
      told.add(Map.of("name", column.name(), "type", column.dataType().typeName()));
    }
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
