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
 * The headers of an output record: the stamp of the job, the stamp of its parent, `lineage`, or
 * with a compact stamp `lineage` alone; then those of the row or, without any, headers that the
 * parent has of other applications, up to a limit. Format: docs/concepts/lineage-header.md.
 */
public final class LineageHeaders {
  private static final String JOB_NAME = "job_name";
  private static final String JOB_VERSION = "job_version";
  static final String BATCH_VERSION = "batch_version";
  static final String PARENT_LINEAGE = "parent_lineage";
  static final String LINEAGE = "lineage";
  static final String DROPPED_HEADERS = "lineage_dropped_headers";
  private static final String FORMAT_VERSION = "1";
  // With ranges, unknown parents or the batch, which readers of version 1 refuse.
  private static final String FORMAT_VERSION_2 = "2";
  // With parents that have consecutive offsets as one item; only for records that list parents.
  private static final String FORMAT_VERSION_3 = "3";
  static final List<String> OWN =
      List.of(JOB_NAME, JOB_VERSION, BATCH_VERSION, PARENT_LINEAGE, LINEAGE, DROPPED_HEADERS);
  private static final HeaderNames OWN_NAMES = new HeaderNames(OWN);
  // Readers accept no longer ones: `model/header.py`.
  static final int MAX_LINEAGE_BYTES = 64 * 1024;

  private final String jobName;
  private final boolean compact;
  private final Header[] stamp;
  private final ParentStamp parentStamp = new ParentStamp();
  private final List<Header> ownHeaders = new ArrayList<>();
  private final byte[] prefix;
  private final byte[] prefix2;
  private final byte[] prefix3;
  // The batch, if no header has it.
  private final byte[] batchWord;
  private final HeaderNames notForwarded;
  private final HeaderPatterns inherited;
  private final HeaderNames describingContent;
  private final HeaderPatterns moreInherited;
  private final int maxHeaderBytes;
  private final int maxHeaders;
  private long dropped;

  LineageHeaders(SinkOptions options, long batch) {
    jobName = options.jobName();
    compact = options.compactStamp();
    stamp = new Header[compact ? 0 : ParentStamp.HEADERS];
    batchWord = (compact ? " b" + batch : "").getBytes(StandardCharsets.US_ASCII);
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
    prefix = prefix(FORMAT_VERSION, options);
    prefix2 = prefix(FORMAT_VERSION_2, options);
    prefix3 = prefix(FORMAT_VERSION_3, options);
    List<String> excluded = new ArrayList<>(OWN);
    excluded.addAll(options.droppedHeaders());
    for (int i = 0; i < options.ownHeaders().size(); i += 2) {
      String name = options.ownHeaders().get(i);
      ownHeaders.add(header(name, options.ownHeaders().get(i + 1)));
      excluded.add(name);
    }
    notForwarded = new HeaderNames(excluded);
    inherited = new HeaderPatterns(options.inheritedHeaders());
    describingContent = new HeaderNames(options.contentHeaders());
    moreInherited = new HeaderPatterns(options.moreHeaders());
    maxHeaderBytes = options.maxHeaderBytes();
    maxHeaders = options.maxHeaders();
  }

  /** Whether a header is one of those that Headwater writes: on a copy it would be false. */
  public static boolean isOwn(UTF8String name) {
    return OWN_NAMES.contains(name);
  }

  private static byte[] prefix(String version, SinkOptions options) {
    return (version + " " + options.runId() + " ").getBytes(StandardCharsets.UTF_8);
  }

  /** With the row's own headers or, if they are null, those of its parent. */
  List<Header> of(Parents parents, long ordinal, ArrayData rowHeaders) {
    return build(parents, ordinal, List.of(), rowHeaders);
  }

  /** For a record that lists additional parents of another record. */
  List<Header> ofUnlisted(ParentListing.Part part, int ordinal) {
    String parents = part.items();
    boolean exact = parents.indexOf(Parents.RANGE) < 0 && parents.indexOf(Parents.UNKNOWN) < 0;
    byte[] version = part.consecutive() ? prefix3 : exact && !compact ? prefix : prefix2;
    Bytes own = new Bytes().add(version).add(parents);
    if (ordinal != 0) {
      own.add(" #").add(ordinal);
    }
    own.add(batchWord);
    List<Header> all = new ArrayList<>(List.of(stamp));
    all.add(new RecordHeader(LINEAGE, own.toArray()));
    all.addAll(ownHeaders);
    return all;
  }

  /** Adds the addresses of records with additional parents after the identity of the record. */
  static void addUnlisted(ProducerRecord<byte[], byte[]> record, List<String> addresses) {
    Header lineage = record.headers().headers(LINEAGE).iterator().next();
    Bytes extended = new Bytes().add(lineage.value());
    String separator = " >";
    for (String address : addresses) {
      if (extended.size() + separator.length() + address.length() > MAX_LINEAGE_BYTES) {
        // The others are found by their key, which is the id of the record.
        break;
      }
      extended.add(separator).add(address);
      separator = ",";
    }
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
    ArrayData ofParent = parents.headers();
    ArrayData others = rowHeaders == null ? ofParent : rowHeaders;
    int count = others == null ? 0 : others.numElements();
    int size = OWN.size() + ownHeaders.size() + errors.size() + Math.min(count, maxHeaders);
    List<Header> all = new ArrayList<>(size);
    for (Header one : stamp) {
      all.add(one);
    }
    Header parentLineage = compact ? null : parentStamp.of(ofParent);
    if (parentLineage != null) {
      all.add(parentLineage);
    }
    all.add(new RecordHeader(LINEAGE, lineage(parents, ordinal)));
    all.addAll(ownHeaders);
    all.addAll(errors);
    if (count > 0) {
      // A stamp is never forwarded.
      int first = others == rowHeaders || parentLineage == null ? 0 : stamp.length;
      // Headers of the row are its own choice, and a dead letter has its parent's value.
      addForeign(all, others, first, others == rowHeaders || !errors.isEmpty());
    }
    return all;
  }

  private void addForeign(List<Header> all, ArrayData headers, int first, boolean unfiltered) {
    int kept = 0;
    int bytes = 0;
    int excess = 0;
    for (int i = first; i < headers.numElements(); i++) {
      InternalRow header = headers.getStruct(i, 2);
      UTF8String name = header.getUTF8String(0);
      if (notForwarded.contains(name) || !(unfiltered || isInherited(name))) {
        continue;
      }
      byte[] value = kept == maxHeaders || header.isNullAt(1) ? null : header.getBinary(1);
      int size = name.numBytes() + (value == null ? 0 : value.length);
      if (kept == maxHeaders || size > maxHeaderBytes - bytes) {
        excess++;
      } else {
        all.add(new RecordHeader(name.toString(), value));
        kept++;
        bytes += size;
      }
    }
    if (excess > 0) {
      all.add(header(DROPPED_HEADERS, Integer.toString(excess)));
      dropped += excess;
    }
  }

  private boolean isInherited(UTF8String name) {
    return inherited.contains(name) && !describingContent.contains(name)
        || moreInherited.contains(name);
  }

  /** The number of headers that exceeded the limits, of all records so far. */
  long dropped() {
    return dropped;
  }

  /** The number in the header of a record. */
  static long droppedIn(Header marker) {
    return Long.parseLong(new String(marker.value(), StandardCharsets.US_ASCII));
  }

  /**
   * `RUN PARENTS[ #ORDINAL][ =RECORD_ID][ bBATCH]`; addresses of additional parents are added
   * later.
   */
  private byte[] lineage(Parents parents, long ordinal) {
    Bytes out = new Bytes().add(!compact && parents.areExact() ? prefix : prefix2);
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
    out.add(batchWord);
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
