/** How much is known of the parents of a run's rows, from its facet. */
import { facet } from "./graph.ts";

export interface RowLineage {
  coverage: "exact" | "ranges" | "unknown" | "off";
  /** The steps because of which parents are not exact, or the reason why it is off. */
  why: string;
}

const COVERAGES = ["exact", "ranges", "unknown", "off"] as const;
const MEANINGS = {
  exact: "every row has its exact parents",
  ranges: "parents are known as ranges of offsets",
  unknown: "parents of some rows are not known",
  off: "rows have no lineage",
};

/** null: the run does not report it. */
export function rowLineageOf(run: { facets?: unknown } | null | undefined): RowLineage | null {
  const found = facet(run?.facets as Parameters<typeof facet>[0], "headwater_rowLineage");
  const coverage = COVERAGES.find((each) => each === found?.["coverage"]);
  if (!coverage) return null;
  const listed = found?.["steps"];
  const steps = Array.isArray(listed) ? listed.filter((each) => typeof each === "string") : [];
  const reason = found?.["reason"];
  const why = typeof reason === "string" && reason ? reason : steps.length ? `because of ${steps.join(", ")}` : "";
  return { coverage, why: [MEANINGS[coverage], why].filter(Boolean).join(": ") };
}
