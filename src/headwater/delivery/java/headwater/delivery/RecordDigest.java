package headwater.delivery;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import org.apache.spark.sql.api.java.UDF3;

/**
 * The first eight bytes of a SHA-256 of what identifies a record, its key and its value. Spark has
 * the hash only as text, from which a number is expensive; `replay/digest.py` does the same.
 */
public final class RecordDigest implements UDF3<byte[], byte[], byte[], Long> {
  private static final long serialVersionUID = 1;
  private static final ThreadLocal<MessageDigest> DIGEST =
      ThreadLocal.withInitial(RecordDigest::sha256);

  @Override
  public Long call(byte[] identity, byte[] key, byte[] value) {
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
    return ByteBuffer.wrap(digest.digest()).getLong();
  }

  /** In decimal, or a dash for null; byte by byte, because this is done for every record. */
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

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException missing) {
      throw new IllegalStateException(missing);
    }
  }
}
