package headwater.delivery;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A few names of headers. Asked for every header of every record: those of another length are ruled
 * out without a look at their bytes, and nothing is hashed.
 */
final class Names {
  private final List<List<UTF8String>> byLength = new ArrayList<>();

  Names(List<String> names) {
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
    for (int place = 0; place < candidates.size(); place++) {
      if (candidates.get(place).equals(name)) {
        return true;
      }
    }
    return false;
  }
}
