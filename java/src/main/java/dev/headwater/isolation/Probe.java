package dev.headwater.isolation;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Iterator;
import org.apache.spark.api.python.PythonException;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;

/** Computes rows without writing them, to find out whether the code of a job raises an error. */
public final class Probe {
  private static final int MAX_CAUSES = 20;

  private Probe() {}

  /**
   * Null if all rows could be computed; otherwise the class and the message of the error, and the
   * complete text.
   *
   * <p>Not as a write: that would be reported as a write of the application.
   */
  public static String[] failure(Dataset<Row> rows) {
    try {
      rows.queryExecution().toRdd().toJavaRDD().foreachPartition(Probe::drain);
      return null;
    } catch (Exception failed) {
      Throwable cause = causeOf(failed);
      StringWriter text = new StringWriter();
      failed.printStackTrace(new PrintWriter(text));
      return new String[] {cause.getClass().getName(), cause.getMessage(), text.toString()};
    }
  }

  private static void drain(Iterator<InternalRow> rows) {
    while (rows.hasNext()) {
      rows.next();
    }
  }

  /** The error of the code itself: that of Python, or else the innermost one with a message. */
  private static Throwable causeOf(Throwable failed) {
    Throwable found = failed;
    Throwable each = failed;
    for (int depth = 0; each != null && depth < MAX_CAUSES; depth++) {
      if (each instanceof PythonException) {
        return each;
      }
      if (each.getMessage() != null) {
        found = each;
      }
      each = each.getCause();
    }
    return found;
  }
}
