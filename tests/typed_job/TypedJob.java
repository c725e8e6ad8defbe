import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.api.java.function.FilterFunction;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.api.java.function.FlatMapGroupsFunction;
import org.apache.spark.api.java.function.FlatMapGroupsWithStateFunction;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.KeyValueGroupedDataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.GroupStateTimeout;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;

/**
 * A user's job with typed Datasets that knows nothing of Headwater; it writes the numbers that a
 * row is made of.
 *
 * <p>Arguments: servers, topic, folder of the checkpoints, prefix of the output topics.
 */
public final class TypedJob {
  private final String servers;
  private final String folder;
  private final String prefix;
  private final List<StreamingQuery> queries = new ArrayList<>();

  private TypedJob(String servers, String folder, String prefix) {
    this.servers = servers;
    this.folder = folder;
    this.prefix = prefix;
  }

  public static void main(String[] arguments) throws Exception {
    SparkSession spark = SparkSession.builder().appName("typed").getOrCreate();
    Dataset<Integer> numbers =
        spark
            .readStream()
            .format("kafka")
            .option("kafka.bootstrap.servers", arguments[0])
            .option("subscribe", arguments[1])
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr("CAST(get_json_object(CAST(value AS STRING), '$.n') AS INT) AS n")
            .as(Encoders.INT());
    new TypedJob(arguments[0], arguments[2], arguments[3]).run(numbers);
    spark.stop();
  }

  private void run(Dataset<Integer> numbers) throws Exception {
    start(
        "map",
        numbers
            .filter((FilterFunction<Integer>) n -> n % 3 != 0)
            .map((MapFunction<Integer, String>) n -> n.toString(), Encoders.STRING()));
    start(
        "flatmap",
        numbers.flatMap(
            (FlatMapFunction<Integer, String>)
                n -> Arrays.asList(n.toString(), n.toString()).subList(0, n % 3).iterator(),
            Encoders.STRING()));
    start(
        "partitions",
        numbers.mapPartitions(
            (MapPartitionsFunction<Integer, String>) TypedJob::texts, Encoders.STRING()));
    KeyValueGroupedDataset<Integer, Integer> groups =
        numbers.groupByKey((MapFunction<Integer, Integer>) n -> n % 10, Encoders.INT());
    start(
        "groups",
        groups.flatMapGroups(
            (FlatMapGroupsFunction<Integer, Integer, String>) (key, group) -> joined(group),
            Encoders.STRING()));
    start(
        "state",
        groups.flatMapGroupsWithState(
            (FlatMapGroupsWithStateFunction<Integer, Integer, Integer, String>)
                (key, group, state) -> {
                  state.update(key);
                  return joined(group);
                },
            OutputMode.Append(),
            Encoders.INT(),
            Encoders.STRING(),
            GroupStateTimeout.NoTimeout()));
    for (StreamingQuery query : queries) {
      query.awaitTermination();
    }
  }

  private static Iterator<String> texts(Iterator<Integer> numbers) {
    List<String> texts = new ArrayList<>();
    numbers.forEachRemaining(number -> texts.add(number.toString()));
    return texts.iterator();
  }

  private static Iterator<String> joined(Iterator<Integer> numbers) {
    List<String> texts = new ArrayList<>();
    texts(numbers).forEachRemaining(texts::add);
    return List.of(texts.stream().collect(Collectors.joining(","))).iterator();
  }

  private void start(String name, Dataset<String> rows) throws Exception {
    queries.add(
        rows.toDF("value")
            .writeStream()
            .format("kafka")
            .option("kafka.bootstrap.servers", servers)
            .option("topic", prefix + name)
            .option("checkpointLocation", folder + "/" + name)
            .queryName(name)
            .trigger(Trigger.AvailableNow())
            .start());
  }
}
