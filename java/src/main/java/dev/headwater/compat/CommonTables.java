package dev.headwater.compat;

import java.lang.reflect.Constructor;
import org.apache.spark.sql.catalyst.optimizer.InlineCTE;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** Common table expressions (`WITH`). */
public final class CommonTables {
  private CommonTables() {}

  /** The plan with each reference replaced by what it refers to. */
  public static LogicalPlan inlined(LogicalPlan plan) {
    Constructor<?> constructor = InlineCTE.class.getConstructors()[0];
    // The first one is whether each reference is replaced, also where that repeats a computation.
    // Each version of Spark adds another one after it, all of which are false by default.
    Object[] values = new Object[constructor.getParameterCount()];
    for (int i = 0; i < values.length; i++) {
      values[i] = i == 0;
    }
    try {
      return ((InlineCTE) constructor.newInstance(values)).apply(plan);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("common table expressions can't be replaced", error);
    }
  }
}
