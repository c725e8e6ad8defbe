package dev.headwater.rowlineage;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A file in the checkpoint of a query whose state contains lineage.
 *
 * <p>Spark refuses a state with other columns. A query that has kept state without lineage goes on
 * without it, and one that has kept it goes on with it.
 */
final class StateMark {
  // The columns that the rewrite adds to the state of joins and aggregates. If these ever change, a
  // query with the former version has to go on with the former columns.
  private static final String VERSION = "2";
  // In the state of a join, the fields of the lineage depend on the steps before the join.
  private static final String OF_PLAN = "1";
  private static final String FILE = "headwater/row-lineage-state";

  private final FileSystem files;
  private final Path mark;
  private final Path offsets;

  StateMark(String checkpoint, Configuration configuration) throws IOException {
    mark = new Path(checkpoint, FILE);
    offsets = new Path(checkpoint, "offsets");
    files = mark.getFileSystem(configuration);
  }

  /** Whether the query has run before, so that its state exists. */
  boolean hasStarted() throws IOException {
    return files.exists(offsets) && files.listStatus(offsets).length > 0;
  }

  /** The version of the lineage in the state, or null. */
  String version() throws IOException {
    if (!files.exists(mark)) {
      return null;
    }
    try (FSDataInputStream in = files.open(mark)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8).trim();
    }
  }

  boolean isSupported() throws IOException {
    return VERSION.equals(version()) || OF_PLAN.equals(version());
  }

  /** Whether lineage has the same fields in the state whatever the steps before the join. */
  boolean hasFixedFields() throws IOException {
    return !hasStarted() || !OF_PLAN.equals(version());
  }

  /** Before the first micro-batch of a query whose state gets lineage. */
  void write() throws IOException {
    try (FSDataOutputStream out = files.create(mark, true)) {
      out.write(VERSION.getBytes(StandardCharsets.UTF_8));
    }
  }

  /**
   * Before the first micro-batch of a query whose state has no lineage: an earlier start failed.
   */
  void remove() throws IOException {
    files.delete(mark, false);
  }
}
