package dev.headwater.join;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.Path;
import org.apache.spark.TaskContext;
import org.apache.spark.deploy.SparkHadoopUtil;
import org.apache.spark.sql.api.java.UDF0;

/**
 * The watermark by which a stateful operator drops rows of the current micro-batch, in
 * microseconds: that of the previous batch, from the checkpoint.
 *
 * <p>A batch that is rerun reads the same file, so the same rows are late.
 */
public final class LateWatermark implements UDF0<Long> {
  private static final long serialVersionUID = 1L;
  private static final Pattern WATERMARK = Pattern.compile("\"batchWatermarkMs\":(\\d+)");

  private final String checkpoint;
  private transient TaskContext task;
  private transient Long micros;

  public LateWatermark(String checkpoint) {
    this.checkpoint = checkpoint;
  }

  @Override
  public Long call() throws IOException {
    TaskContext running = TaskContext.get();
    if (micros == null || running != task) {
      long batch = BatchNumber.ofTask(running);
      micros = batch == 0 ? 0L : 1000 * millisOf(batch - 1);
      task = running;
    }
    return micros;
  }

  private long millisOf(long batch) throws IOException {
    Path file = new Path(checkpoint, "offsets/" + batch);
    try (InputStream in = file.getFileSystem(SparkHadoopUtil.get().conf()).open(file)) {
      Matcher matcher = WATERMARK.matcher(new String(in.readAllBytes(), StandardCharsets.UTF_8));
      if (!matcher.find()) {
        throw new IOException(file + " has no watermark");
      }
      return Long.parseLong(matcher.group(1));
    }
  }
}
