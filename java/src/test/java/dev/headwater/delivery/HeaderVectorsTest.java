package dev.headwater.delivery;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Headers that Python encodes to the same bytes: `tests/unit/model/test_header_vectors.py`. */
class HeaderVectorsTest {
  private static final File VECTORS = new File("tests/header_vectors.json");

  @TestFactory
  Stream<DynamicTest> theSinkWritesTheLineageHeaderOfTheVectors() throws IOException {
    return tests(
        "lineage", vector -> assertEquals(vector.get("header").asText(), lineageHeader(vector)));
  }

  @TestFactory
  Stream<DynamicTest> theSinkListsTheOtherParentsAsInTheVectors() throws IOException {
    return tests(
        "unlisted",
        vector -> {
          SinkOptions options = TestSink.options("stamp", vector.has("batch") ? "compact" : "full");
          LineageHeaders headers = new LineageHeaders(options, vector.path("batch").asLong(0));
          List<String> written = new ArrayList<>();
          for (ParentListing.Part part : ParentListing.of(vector.get("unlisted").asText())) {
            written.add(valueOf("lineage", headers.ofUnlisted(part, written.size())));
          }
          assertEquals(texts(vector.get("headers")), written);
        });
  }

  @TestFactory
  Stream<DynamicTest> theSinkWritesTheStampOfAParentAsInTheVectors() throws IOException {
    return tests(
        "parent_lineage",
        vector -> {
          LineageHeaders headers = new LineageHeaders(TestSink.options(), 0);
          InternalRow lineage = lineage(List.of("in/0@1"), 0, null, stamp(vector.get("stamp")));
          List<Header> all = headers.of(new Parents(lineage), 0, null);
          assertEquals(vector.get("header").asText(), valueOf("parent_lineage", all));
        });
  }

  @TestFactory
  Stream<DynamicTest> anOutputInheritsTheHeadersOfTheVectors() throws IOException {
    JsonNode rule = new ObjectMapper().readTree(VECTORS).get("inheritance");
    return tests(
        "inherited",
        vector -> {
          SinkOptions options =
              TestSink.options(
                  "inheritedHeaders",
                  String.join("\n", texts(rule.get("inherited"))),
                  "contentHeaders",
                  String.join("\n", texts(rule.get("content"))),
                  "moreHeaders",
                  String.join("\n", texts(vector.get("more"))));
          List<String> names = texts(vector.get("parent"));
          Object[] parent = names.stream().map(name -> TestSink.header(name, "1")).toArray();
          InternalRow lineage = lineage(List.of("in/0@1"), 0, null, new GenericArrayData(parent));
          List<Header> all = new LineageHeaders(options, 0).of(new Parents(lineage), 0, null);
          List<String> written = all.stream().map(Header::key).toList();
          int own = written.indexOf("lineage") + 1;
          assertEquals(texts(vector.get("kept")), written.subList(own, written.size()));
        });
  }

  private static String lineageHeader(JsonNode vector) {
    SinkOptions options =
        TestSink.options(
            "jobName",
            vector.get("job").asText(),
            "runId",
            vector.get("run").asText(),
            "stamp",
            vector.has("batch") ? "compact" : "full");
    long batch = vector.path("batch").asLong(0);
    List<String> parents = texts(vector.path("parents"));
    String hash = vector.path("all_parents").asText(null);
    long ordinal = vector.path("ordinal").asLong(0);
    InternalRow lineage = lineage(parents, vector.path("unlisted").asLong(0), hash, null);
    List<Header> headers =
        new LineageHeaders(options, batch).of(new Parents(lineage), ordinal, null);
    List<String> rest = texts(vector.path("rest"));
    ProducerRecord<byte[], byte[]> record = new ProducerRecord<>("out", 0, null, null, headers);
    if (!rest.isEmpty()) {
      LineageHeaders.addUnlisted(record, rest);
    }
    return valueOf("lineage", List.of(record.headers().toArray()));
  }

  /** The column `lineage`: a single parent has its own fields, others are a text. */
  private static InternalRow lineage(
      List<String> parents, long unlisted, String hash, ArrayData headers) {
    Object[] fields = new Object[Parents.FIELDS];
    if (parents.size() == 1 && unlisted == 0 && "~?".indexOf(parents.get(0).charAt(0)) < 0) {
      String parent = parents.get(0);
      int slash = parent.lastIndexOf('/');
      int at = parent.lastIndexOf('@');
      fields[0] = UTF8String.fromString(parent.substring(0, slash));
      fields[1] = Integer.parseInt(parent.substring(slash + 1, at));
      fields[2] = Long.parseLong(parent.substring(at + 1));
    } else if (!parents.isEmpty()) {
      fields[3] = UTF8String.fromString(String.join(",", parents));
    }
    fields[4] = unlisted;
    fields[5] = UTF8String.fromString(hash);
    fields[6] = headers;
    return new GenericInternalRow(fields);
  }

  private static ArrayData stamp(JsonNode stamp) {
    List<Object> headers = new ArrayList<>();
    for (JsonNode header : stamp) {
      headers.add(TestSink.header(header.get(0).asText(), header.get(1).asText()));
    }
    return new GenericArrayData(headers.toArray());
  }

  private static String valueOf(String name, List<Header> headers) {
    Header found =
        headers.stream().filter(header -> header.key().equals(name)).findFirst().orElseThrow();
    return new String(found.value(), StandardCharsets.UTF_8);
  }

  private static List<String> texts(JsonNode array) {
    return StreamSupport.stream(array.spliterator(), false).map(JsonNode::asText).toList();
  }

  private interface Check {
    void run(JsonNode vector);
  }

  private static Stream<DynamicTest> tests(String kind, Check check) throws IOException {
    JsonNode vectors = new ObjectMapper().readTree(VECTORS).get(kind);
    return StreamSupport.stream(vectors.spliterator(), false)
        .map(
            vector ->
                DynamicTest.dynamicTest(vector.get("name").asText(), () -> check.run(vector)));
  }
}
