package dev.headwater.delivery;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A small set of header names. Lookups run for every header of every record: names of other lengths
 * are excluded without comparing bytes, and nothing is hashed.
 */
final class HeaderNames {
  private final List<List<UTF8String>> byLength = new ArrayList<>();

  HeaderNames(List<String> names) {
    for (String name : names) {
      UTF8String one = UTF8String.fromString(name);
      while (byLength.size() <= one.numBytes()) {
        byLength.add(new ArrayList<>());
      }
      byLength.get(one.numBytes()).add(one);
    }
  }

  boolean contains(UTF8String name) {
    if (name.numBytes() >= byLength.size()) {
      return false;
    }
    List<UTF8String> candidates = byLength.get(name.numBytes());
    for (int i = 0; i < candidates.size(); i++) {
      if (candidates.get(i).equals(name)) {
        return true;
      }
    }
    return false;
  }
}
