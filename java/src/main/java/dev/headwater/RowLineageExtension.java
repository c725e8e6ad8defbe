package dev.headwater;

import dev.headwater.rowlineage.RowLineage;
import org.apache.spark.sql.SparkSessionExtensions;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Row lineage for jobs that are not changed: {@code
 * spark.sql.extensions=dev.headwater.RowLineageExtension}.
 */
public final class RowLineageExtension
    extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    RowLineage.inject(extensions);
    return BoxedUnit.UNIT;
  }
}
