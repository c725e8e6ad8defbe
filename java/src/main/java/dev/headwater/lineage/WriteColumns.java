package dev.headwater.lineage;

import dev.headwater.columns.ColumnLineage;
import dev.headwater.compat.CollectionConverters;
import dev.headwater.rowlineage.OriginalPlan;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Column lineage of a write, with the files and tables that its query reads. */
final class WriteColumns {
  private WriteColumns() {}

  /**
   * The result of {@link ColumnLineage}, and `sources`: one per leaf.
   *
   * @param self the target of a merge, which is not a source; null for other writes
   */
  static Map<String, Object> of(LogicalPlan written, String self) {
    LogicalPlan query = OriginalPlan.of(written);
    List<Object> sources = new ArrayList<>();
    ColumnLineage.leaves(query).forEach(leaf -> sources.add(source(leaf, self)));
    Map<String, Object> columns = ColumnLineage.of(query).asMap();
    columns.put("sources", sources);
    return columns;
  }

  /** Empty for anything other than files and tables. */
  private static Map<String, Object> source(LogicalPlan leaf, String self) {
    if (leaf instanceof LogicalRelation relation
        && relation.relation() instanceof HadoopFsRelation files) {
      List<String> paths = new ArrayList<>();
      CollectionConverters.asJava(files.location().rootPaths())
          .forEach(path -> paths.add(path.toString()));
      return Map.of("files", paths, "fields", fields(files.schema()));
    }
    String name = leaf instanceof DataSourceV2Relation table ? PlanTables.nameOf(table) : null;
    return name == null || name.equals(self) ? Map.of() : Map.of("table", name);
  }

  static List<Map<String, String>> fields(StructType columns) {
    List<Map<String, String>> fields = new ArrayList<>();
    for (StructField column : columns.fields()) {
      fields.add(Map.of("name", column.name(), "type", column.dataType().typeName()));
    }
    return fields;
  }
}
