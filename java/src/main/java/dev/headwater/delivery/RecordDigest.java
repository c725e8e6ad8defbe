package dev.headwater.delivery;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import org.apache.spark.sql.api.java.UDF3;

/**
 * The first eight bytes of a SHA-256 of the identity, key and value of a record. Spark has the hash
 * only as text, which is expensive to convert; `replay/manifest.py` computes the same.
 */
public final class RecordDigest implements UDF3<byte[], byte[], byte[], Long> {
  private static final long serialVersionUID = 1;
  private static final ThreadLocal<MessageDigest> DIGEST =
      ThreadLocal.withInitial(RecordDigest::newDigest);

  @Override
  public Long call(byte[] identity, byte[] key, byte[] value) {
    return ByteBuffer.wrap(sha256(identity, key, value)).getLong();
  }

  /** The complete hash. */
  static byte[] sha256(byte[] identity, byte[] key, byte[] value) {
    MessageDigest digest = DIGEST.get();
    digest.update(identity);
    digest.update((byte) 0);
    addLength(digest, key);
    addLength(digest, value);
    if (key != null) {
      digest.update(key);
    }
    if (value != null) {
      digest.update(value);
    }
    return digest.digest();
  }

  /** In decimal, or a dash for null; without a string, because this runs for every record. */
  private static void addLength(MessageDigest digest, byte[] part) {
    if (part == null) {
      digest.update((byte) '-');
    } else {
      int unit = 1;
      while (part.length / unit >= 10) {
        unit *= 10;
      }
      for (; unit > 0; unit /= 10) {
        digest.update((byte) ('0' + part.length / unit % 10));
      }
    }
    digest.update((byte) 0);
  }

  private static MessageDigest newDigest() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException missing) {
      throw new IllegalStateException(missing);
    }
  }
}
