package dev.headwater.delivery;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** A growing buffer of text as bytes, without decoding and encoding. */
final class Bytes {
  private static final String HEX = "0123456789abcdef";

  private byte[] bytes = new byte[160];
  private int size;

  Bytes add(char ascii) {
    ensure(1);
    bytes[size++] = (byte) ascii;
    return this;
  }

  Bytes add(byte[] more) {
    ensure(more.length);
    System.arraycopy(more, 0, bytes, size, more.length);
    size += more.length;
    return this;
  }

  Bytes add(String text) {
    return add(text.getBytes(StandardCharsets.UTF_8));
  }

  /** In decimal. */
  Bytes add(long number) {
    if (number < 0) {
      return add(Long.toString(number));
    }
    int digits = 1;
    for (long rest = number / 10; rest > 0; rest /= 10) {
      digits++;
    }
    ensure(digits);
    size += digits;
    for (int at = size - 1; digits > 0; digits--, at--) {
      bytes[at] = (byte) ('0' + number % 10);
      number /= 10;
    }
    return this;
  }

  /** With the escapes of a JSON string. */
  Bytes addEscaped(byte[] text) {
    for (byte one : text) {
      if (one == '"' || one == '\\') {
        add('\\').add((char) one);
      } else if (one >= 0 && one < ' ') {
        addControl(one);
      } else {
        add((char) one);
      }
    }
    return this;
  }

  private void addControl(byte one) {
    int known = "\b\t\n\f\r".indexOf(one);
    add('\\');
    if (known >= 0) {
      add("btnfr".charAt(known));
    } else {
      add("u00").add(HEX.charAt(one >> 4)).add(HEX.charAt(one & 15));
    }
  }

  int size() {
    return size;
  }

  byte[] toArray() {
    return Arrays.copyOf(bytes, size);
  }

  @Override
  public String toString() {
    return new String(bytes, 0, size, StandardCharsets.UTF_8);
  }

  private void ensure(int more) {
    if (size + more > bytes.length) {
      bytes = Arrays.copyOf(bytes, Math.max(size + more, bytes.length * 2));
    }
  }
}
