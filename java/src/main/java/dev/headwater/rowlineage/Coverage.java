package dev.headwater.rowlineage;

import java.util.LinkedHashSet;
import java.util.Set;

/** How much is known of the parents of a query's rows. */
final class Coverage {
  private final Set<String> within = new LinkedHashSet<>();
  private final Set<String> unknown = new LinkedHashSet<>();

  /** A step after which parents are known as ranges of offsets. */
  void addWithin(String step) {
    within.add(step);
  }

  /** A step after which parents are not known. */
  void addUnknown(String step) {
    unknown.add(step);
  }

  /** `exact`, `ranges` or `unknown`. */
  String kind() {
    if (!unknown.isEmpty()) {
      return "unknown";
    }
    return within.isEmpty() ? "exact" : "ranges";
  }

  /** The steps because of which the parents are not exact. */
  Set<String> steps() {
    Set<String> steps = new LinkedHashSet<>(unknown);
    steps.addAll(within);
    return steps;
  }
}
