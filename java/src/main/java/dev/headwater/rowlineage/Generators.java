package dev.headwater.rowlineage;

import static dev.headwater.rowlineage.Catalyst.java;
import static dev.headwater.rowlineage.Catalyst.seq;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Explode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Generator;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Inline;
import org.apache.spark.sql.catalyst.expressions.PosExplode;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataTypes;
import scala.Option;

/** Steps that make several rows of one: the position of each becomes part of its lineage. */
final class Generators {
  private static final String POSITION = "__headwater_position";

  private Generators() {}

  static PlanRewriter.Rows rewrite(
      Generate generate, PlanRewriter.Rows child, PlanRewriter rewriter) {
    Generator generator = generate.generator();
    List<Attribute> output = java(generate.generatorOutput());
    if (generator instanceof PosExplode) {
      LogicalPlan rewritten = Catalyst.withFirstChild(generate, child.plan());
      return numbered(rewritten, child, output.get(0), generate, rewriter);
    }
    if (generator instanceof Explode explode) {
      Attribute position = Catalyst.attribute(POSITION, DataTypes.IntegerType);
      output.add(0, position);
      LogicalPlan rewritten = explode(generate, explode.child(), output, child.plan());
      return numbered(rewritten, child, position, generate, rewriter);
    }
    if (generator instanceof Inline inline) {
      return inline(generate, inline, child, rewriter);
    }
    if (generator.getClass().getSimpleName().contains("Python")) {
      // It may return further rows when it has received all.
      return rewriter.unknown(generate, "Python table function");
    }
    return new PlanRewriter.Rows(Catalyst.withFirstChild(generate, child.plan()), child.lineage());
  }

  /** `inline` is `explode` of structs whose fields become columns. */
  private static PlanRewriter.Rows inline(
      Generate generate, Inline inline, PlanRewriter.Rows child, PlanRewriter rewriter) {
    Attribute position = Catalyst.attribute(POSITION, DataTypes.IntegerType);
    Attribute element =
        Catalyst.attribute(
            "__headwater_element", ((ArrayType) inline.child().dataType()).elementType());
    LogicalPlan exploded =
        explode(generate, inline.child(), List.of(position, element), child.plan());
    List<Object> columns = new ArrayList<>();
    for (Attribute each : Catalyst.<Attribute>java(exploded.output())) {
      if (!each.exprId().equals(element.exprId())) {
        columns.add(each);
      }
    }
    List<Attribute> fields = java(generate.generatorOutput());
    for (int i = 0; i < fields.size(); i++) {
      columns.add(
          Catalyst.inPlaceOf(fields.get(i), new GetStructField(element, i, Option.empty())));
    }
    return numbered(new Project(seq(columns), exploded), child, position, generate, rewriter);
  }

  private static LogicalPlan explode(
      Generate generate, Expression values, List<?> output, LogicalPlan child) {
    return new Generate(
        new PosExplode(values),
        generate.unrequiredChildIndex(),
        generate.outer(),
        generate.qualifier(),
        seq(output),
        child);
  }

  private static PlanRewriter.Rows numbered(
      LogicalPlan plan,
      PlanRewriter.Rows child,
      Expression position,
      Generate original,
      PlanRewriter rewriter) {
    return rewriter.append(
        plan, LineageStruct.numbered(child.lineage(), position), original.output());
  }
}
