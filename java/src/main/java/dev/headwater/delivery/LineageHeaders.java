package dev.headwater.delivery;

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
 * The headers of an output record: the stamp of the job, the stamp of its parent, `lineage`, then
 * those of the row or, without any, the parent's headers of other applications. Format:
 * docs/concepts/lineage-header.md.
 */
final class LineageHeaders {
  private static final String JOB_NAME = "job_name";
  private static final String JOB_VERSION = "job_version";
  private static final String BATCH_VERSION = "batch_version";
  static final String PARENT_LINEAGE = "parent_lineage";
  private static final String LINEAGE = "lineage";
  private static final String FORMAT_VERSION = "1";
  private static final List<String> OWN =
      List.of(JOB_NAME, JOB_VERSION, BATCH_VERSION, PARENT_LINEAGE, LINEAGE);

  private final String jobName;
  private final Header[] stamp = new Header[ParentStamp.HEADERS];
  private final ParentStamp parentStamp = new ParentStamp();
  private final List<Header> ownHeaders = new ArrayList<>();
  private final byte[] prefix;
  private final HeaderNames notForwarded;

  LineageHeaders(SinkOptions options, long batch) {
    jobName = options.jobName();
    for (int i = 0; i < stamp.length; i++) {
      String name = options.headerOrder().get(i);
      String value =
          switch (name) {
            case JOB_NAME -> options.jobName();
            case JOB_VERSION -> options.jobVersion();
            default -> Long.toString(batch);
          };
      stamp[i] = header(name, value);
    }
    prefix = (FORMAT_VERSION + " " + options.runId() + " ").getBytes(StandardCharsets.UTF_8);
    List<String> dropped = new ArrayList<>(OWN);
    dropped.addAll(options.droppedHeaders());
    for (int i = 0; i < options.ownHeaders().size(); i += 2) {
      String name = options.ownHeaders().get(i);
      ownHeaders.add(header(name, options.ownHeaders().get(i + 1)));
      dropped.add(name);
    }
    notForwarded = new HeaderNames(dropped);
  }

  /** With the row's own headers or, if they are null, those of its parent. */
  List<Header> of(Parents parents, long ordinal, ArrayData rowHeaders) {
    return build(parents, ordinal, List.of(), rowHeaders);
  }

  /** For a record that lists additional parents of another record. */
  List<Header> ofUnlisted(String parents, int ordinal) {
    Bytes own = new Bytes().add(prefix).add(parents);
    if (ordinal != 0) {
      own.add(" #").add(ordinal);
    }
    List<Header> all = new ArrayList<>(List.of(stamp));
    all.add(new RecordHeader(LINEAGE, own.toArray()));
    all.addAll(ownHeaders);
    return all;
  }

  /** Adds the addresses of records with additional parents after the identity of the record. */
  static void addUnlisted(ProducerRecord<byte[], byte[]> record, List<String> addresses) {
    Header lineage = record.headers().headers(LINEAGE).iterator().next();
    Bytes extended = new Bytes().add(lineage.value()).add(" >").add(String.join(",", addresses));
    byte[] value = extended.toArray();
    Header[] before = record.headers().toArray();
    for (Header one : before) {
      record.headers().remove(one.key());
    }
    for (Header one : before) {
      record.headers().add(one == lineage ? new RecordHeader(LINEAGE, value) : one);
    }
  }

  /** For a record that could not be processed: with the error headers of Kafka Connect. */
  List<Header> ofFailed(Parents parents, long ordinal, InternalRow error) {
    String kind = error.isNullAt(0) ? null : error.getUTF8String(0).toString();
    String message = error.isNullAt(1) ? null : error.getUTF8String(1).toString();
    List<Header> errors = ConnectErrors.headers(parents, jobName, "VALUE_CONVERTER", kind, message);
    return build(parents, ordinal, errors, null);
  }

  private List<Header> build(
      Parents parents, long ordinal, List<Header> errors, ArrayData rowHeaders) {
    ArrayData inherited = parents.headers();
    ArrayData others = rowHeaders == null ? inherited : rowHeaders;
    int count = others == null ? 0 : others.numElements();
    List<Header> all = new ArrayList<>(OWN.size() + ownHeaders.size() + errors.size() + count);
    for (Header one : stamp) {
      all.add(one);
    }
    Header parentLineage = parentStamp.of(inherited);
    if (parentLineage != null) {
      all.add(parentLineage);
    }
    all.add(new RecordHeader(LINEAGE, lineage(parents, ordinal)));
    all.addAll(ownHeaders);
    all.addAll(errors);
    // A stamp is never forwarded.
    int first = others == rowHeaders || parentLineage == null ? 0 : stamp.length;
    for (int i = first; others != null && i < count; i++) {
      InternalRow header = others.getStruct(i, 2);
      if (!notForwarded.contains(header.getUTF8String(0))) {
        byte[] value = header.isNullAt(1) ? null : header.getBinary(1);
        all.add(new RecordHeader(header.getUTF8String(0).toString(), value));
      }
    }
    return all;
  }

  /** `1 RUN PARENTS[ #ORDINAL][ =RECORD_ID]`; addresses of additional parents are added later. */
  private byte[] lineage(Parents parents, long ordinal) {
    Bytes out = new Bytes().add(prefix);
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
