package dev.headwater.delivery;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.unsafe.types.UTF8String;

/** Names of headers, and patterns with one `*`, such as `ce_*`. Lookups run for every header. */
final class HeaderPatterns {
  private record Pattern(UTF8String prefix, UTF8String suffix) {
    boolean matches(UTF8String name) {
      return name.numBytes() >= prefix.numBytes() + suffix.numBytes()
          && name.startsWith(prefix)
          && name.endsWith(suffix);
    }
  }

  private final HeaderNames names;
  private final List<Pattern> patterns = new ArrayList<>();

  HeaderPatterns(List<String> namesAndPatterns) {
    List<String> exact = new ArrayList<>();
    for (String one : namesAndPatterns) {
      int star = one.indexOf('*');
      if (star < 0) {
        exact.add(one);
      } else {
        UTF8String prefix = UTF8String.fromString(one.substring(0, star));
        patterns.add(new Pattern(prefix, UTF8String.fromString(one.substring(star + 1))));
      }
    }
    names = new HeaderNames(exact);
  }

  boolean contains(UTF8String name) {
    if (names.contains(name)) {
      return true;
    }
    for (int i = 0; i < patterns.size(); i++) {
      if (patterns.get(i).matches(name)) {
        return true;
      }
    }
    return false;
  }
}
