package dev.headwater.rowlineage;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** The status of a query with foreachBatch, from its start and the writes of its micro-batches. */
final class BatchStatus {
  // From the best to the worst.
  private static final List<String> KINDS = List.of("exact", "ranges", "unknown");
  private static final int MAX_SINKS = 10;

  private final RowLineageStatus start;
  private final Set<String> steps;
  private final Set<String> without = new LinkedHashSet<>();
  private String kind;
  private boolean hasLineage;

  BatchStatus(RowLineageStatus start) {
    this.start = start;
    this.kind = start.kind();
    this.steps = new LinkedHashSet<>(start.steps());
  }

  /** A write with lineage. */
  void add(Coverage coverage) {
    hasLineage = true;
    steps.addAll(coverage.steps());
    kind = KINDS.get(Math.max(KINDS.indexOf(kind), KINDS.indexOf(coverage.kind())));
  }

  /** A write without lineage. */
  void addWithout(String sink) {
    if (without.size() < MAX_SINKS) {
      without.add(sink);
    }
  }

  RowLineageStatus status() {
    if (without.isEmpty()) {
      return of(kind, steps, start.reason());
    }
    if (!hasLineage) {
      return of("off", Set.of(), String.join(", ", without) + " has no column for it");
    }
    Set<String> all = new LinkedHashSet<>(steps);
    without.forEach(sink -> all.add("write with " + sink));
    return of("unknown", all, start.reason());
  }

  private RowLineageStatus of(String coverage, Set<String> because, String reason) {
    return new RowLineageStatus(
        start.query(),
        coverage,
        new LinkedHashSet<>(because),
        reason,
        start.runId(),
        start.warnings());
  }
}
