package dev.headwater.rowlineage;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;

/** How much is known of the parents of a query's rows. */
final class Coverage {
  private static final String WITHIN = "headwater.within";
  private static final String UNKNOWN = "headwater.unknown";
  private static final String SHARED = "headwater.shared";

  private final Set<String> within = new LinkedHashSet<>();
  private final Set<String> unknown = new LinkedHashSet<>();
  private String sharedBy;

  /** A step after which parents are known as ranges of offsets. */
  void addWithin(String step) {
    within.add(step);
  }

  /** A step after which parents are not known. */
  void addUnknown(String step) {
    unknown.add(step);
  }

  /**
   * @param step after which several rows may have the same parents and ordinal, or null
   */
  void setSharedBy(String step) {
    sharedBy = step;
  }

  /** The step after which several rows may have the same parents and ordinal, or null. */
  String sharedBy() {
    return sharedBy;
  }

  /** For the metadata of a column; empty if parents are exact and identify the rows. */
  Metadata metadata() {
    MetadataBuilder metadata = new MetadataBuilder();
    if (!kind().equals("exact")) {
      metadata.putStringArray(WITHIN, within.toArray(String[]::new));
      metadata.putStringArray(UNKNOWN, unknown.toArray(String[]::new));
    }
    if (sharedBy != null) {
      metadata.putString(SHARED, sharedBy);
    }
    return metadata.build();
  }

  /** Adds what the metadata of a column has. */
  void add(Metadata metadata) {
    if (metadata.contains(WITHIN)) {
      within.addAll(List.of(metadata.getStringArray(WITHIN)));
      unknown.addAll(List.of(metadata.getStringArray(UNKNOWN)));
    }
    if (metadata.contains(SHARED)) {
      sharedBy = metadata.getString(SHARED);
    }
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
