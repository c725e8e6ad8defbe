package headwater.delivery;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The headers of a record that a job writes: its stamp, its parent's stamp, `lineage`, then those
 * that others put on the parent. Their form is in docs/concepts/lineage-header.md.
 */
final class LineageHeaders {
  private static final String JOB_NAME = "job_name";
  private static final String JOB_VERSION = "job_version";
  private static final String BATCH_VERSION = "batch_version";
  static final String PARENT_LINEAGE = "parent_lineage";
  private static final String LINEAGE = "lineage";
  private static final String FORM = "1";
  private static final List<String> OWN =
      List.of(JOB_NAME, JOB_VERSION, BATCH_VERSION, PARENT_LINEAGE, LINEAGE);

  private final String jobName;
  private final Header[] stamp = new Header[ParentStamp.HEADERS];
  private final ParentStamp parentStamp = new ParentStamp();
  private final List<Header> ownHeaders = new ArrayList<>();
  private final byte[] lead;
  private final Names notHandedOn;

  LineageHeaders(SinkOptions options, long batch) {
    jobName = options.jobName();
    for (int place = 0; place < stamp.length; place++) {
      String name = options.headerOrder().get(place);
      String value =
          switch (name) {
            case JOB_NAME -> options.jobName();
            case JOB_VERSION -> options.jobVersion();
            default -> Long.toString(batch);
          };
      stamp[place] = header(name, value);
    }
    lead = (FORM + " " + options.runId() + " ").getBytes(StandardCharsets.UTF_8);
    List<String> dropped = new ArrayList<>(OWN);
    dropped.addAll(options.droppedHeaders());
    for (int place = 0; place < options.ownHeaders().size(); place += 2) {
      String name = options.ownHeaders().get(place);
      ownHeaders.add(header(name, options.ownHeaders().get(place + 1)));
      dropped.add(name);
    }
    notHandedOn = new Names(dropped);
  }

  List<Header> of(Parents parents, long ordinal) {
    return build(parents, ordinal, List.of());
  }

  /** Of a record that lists some of the parents of another one. */
  List<Header> ofRest(String parents, int place) {
    Bytes own = new Bytes().add(lead).add(parents);
    if (place != 0) {
      own.add(" #").add(place);
    }
    List<Header> all = new ArrayList<>(List.of(stamp));
    all.add(new RecordHeader(LINEAGE, own.toArray()));
    all.addAll(ownHeaders);
    return all;
  }

  /** Names the records that list the rest, behind everything that identifies the record. */
  static void addRest(ProducerRecord<byte[], byte[]> record, List<String> addresses) {
    Header lineage = record.headers().headers(LINEAGE).iterator().next();
    byte[] named = new Bytes().add(lineage.value()).add(" >").add(String.join(",", addresses)).toArray();
    Header[] before = record.headers().toArray();
    for (Header one : before) {
      record.headers().remove(one.key());
    }
    for (Header one : before) {
      record.headers().add(one == lineage ? new RecordHeader(LINEAGE, named) : one);
    }
  }

  /** Of a record that could not be processed: with the headers that Kafka Connect gives one. */
  List<Header> ofFailed(Parents parents, long ordinal, InternalRow error) {
    String kind = error.isNullAt(0) ? null : error.getUTF8String(0).toString();
    String message = error.isNullAt(1) ? null : error.getUTF8String(1).toString();
    return build(
        parents, ordinal, ConnectErrors.headers(parents, jobName, "VALUE_CONVERTER", kind, message));
  }

  private List<Header> build(Parents parents, long ordinal, List<Header> errors) {
    ArrayData of = parents.headers();
    int known = of == null ? 0 : of.numElements();
    List<Header> all = new ArrayList<>(OWN.size() + ownHeaders.size() + errors.size() + known);
    for (Header one : stamp) {
      all.add(one);
    }
    Header parentLineage = parentStamp.of(of);
    if (parentLineage != null) {
      all.add(parentLineage);
    }
    all.add(new RecordHeader(LINEAGE, lineage(parents, ordinal)));
    all.addAll(ownHeaders);
    all.addAll(errors);
    // A stamp is never handed on.
    for (int place = parentLineage == null ? 0 : stamp.length; place < known; place++) {
      InternalRow one = of.getStruct(place, 2);
      if (!notHandedOn.contains(one.getUTF8String(0))) {
        byte[] value = one.isNullAt(1) ? null : one.getBinary(1);
        all.add(new RecordHeader(one.getUTF8String(0).toString(), value));
      }
    }
    return all;
  }

  /** `1 RUN PARENTS[ #ORDINAL][ =RECORD_ID]`; the rest of the parents is named later. */
  private byte[] lineage(Parents parents, long ordinal) {
    Bytes out = new Bytes().add(lead);
    parents.writeTo(out);
    if (parents.unlisted() != 0) {
      out.add(",+").add(parents.unlisted());
    }
    if (ordinal != 0) {
      out.add(" #").add(ordinal);
    }
    if (parents.allParentsHash() != null) {
      out.add(" =").add(recordId(parents.allParentsHash(), ordinal));
    }
    return out.toArray();
  }

  String recordId(UTF8String parentsHash, long ordinal) {
    String text = jobName + "\0" + parentsHash + "\0" + ordinal;
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      byte[] hash = digest.digest(text.getBytes(StandardCharsets.UTF_8));
      return HexFormat.of().formatHex(hash, 0, 16);
    } catch (NoSuchAlgorithmException missing) {
      throw new IllegalStateException(missing);
    }
  }

  static Header header(String name, String value) {
    return new RecordHeader(name, value == null ? null : value.getBytes(StandardCharsets.UTF_8));
  }
}
