package dev.headwater.delivery;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Set;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/**
 * What the lineage headers of a record contain about its origin: the run and the batch that wrote
 * it, and its identity, which is the same in every run that creates the record.
 *
 * @param identity the words between the run and the batch, as `model/header.py` has them; null if
 *     the parents are not known exactly, since other records may have the same words
 */
record RecordIdentity(String runId, long batch, byte[] identity) {
  private static final byte[] VERSIONS = {'1', '2'};

  /** Of a record in the output; null if it has no lineage of this form. */
  static RecordIdentity of(Headers headers) {
    Header header = headers.lastHeader(LineageHeaders.LINEAGE);
    byte[] lineage = header == null ? null : header.value();
    int run = 2;
    if (lineage == null || lineage.length < run || lineage[1] != ' ' || !isVersion(lineage[0])) {
      return null;
    }
    int parents = indexOf(lineage, ' ', run) + 1;
    if (parents == 0) {
      return null;
    }
    int end = endOfIdentity(lineage, parents);
    long batch = batch(lineage, end, headers);
    String runId = new String(lineage, run, parents - 1 - run, StandardCharsets.US_ASCII);
    return batch < 0 ? null : new RecordIdentity(runId, batch, identity(lineage, parents, end));
  }

  /** Whether one of the runs wrote it in this batch, and it can be recognized. */
  boolean isOf(long wanted, Set<String> runs) {
    return batch == wanted && identity != null && runs.contains(runId);
  }

  private static boolean isVersion(byte first) {
    return first == VERSIONS[0] || first == VERSIONS[1];
  }

  private static byte[] identity(byte[] lineage, int begin, int end) {
    for (int i = begin; i < end; i++) {
      if (lineage[i] == Parents.RANGE || lineage[i] == Parents.UNKNOWN) {
        return null;
      }
    }
    return Arrays.copyOfRange(lineage, begin, end);
  }

  /** The identity ends before ` bBATCH` or ` >ADDRESSES`. */
  private static int endOfIdentity(byte[] lineage, int begin) {
    for (int i = begin; i < lineage.length - 1; i++) {
      if (lineage[i] == ' ' && (lineage[i + 1] == 'b' || lineage[i + 1] == '>')) {
        return i;
      }
    }
    return lineage.length;
  }

  /** In the lineage of a compact stamp, else in a header; -1 if it is in neither. */
  private static long batch(byte[] lineage, int end, Headers headers) {
    if (end + 1 < lineage.length && lineage[end + 1] == 'b') {
      int next = indexOf(lineage, ' ', end + 1);
      return number(lineage, end + 2, next < 0 ? lineage.length : next);
    }
    Header header = headers.lastHeader(LineageHeaders.BATCH_VERSION);
    byte[] value = header == null ? null : header.value();
    return value == null ? -1 : number(value, 0, value.length);
  }

  private static long number(byte[] digits, int begin, int end) {
    try {
      return Long.parseLong(new String(digits, begin, end - begin, StandardCharsets.US_ASCII));
    } catch (NumberFormatException other) {
      return -1;
    }
  }

  private static int indexOf(byte[] bytes, char wanted, int begin) {
    for (int i = begin; i < bytes.length; i++) {
      if (bytes[i] == wanted) {
        return i;
      }
    }
    return -1;
  }
}
