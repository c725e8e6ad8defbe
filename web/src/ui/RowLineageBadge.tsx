import type { ReactNode } from "react";
import { rowLineageOf } from "../model/rowLineage.ts";
import { Name } from "./Name.tsx";

/** What became of row lineage in a run; nothing if the run does not report it. */
export function RowLineageBadge({ run }: { run: { facets?: unknown } | null | undefined }): ReactNode {
  const found = rowLineageOf(run);
  if (!found) return null;
  return (
    <span className="row-lineage">
      <span className="badge" data-coverage={found.coverage} title={found.why}>
        <i aria-hidden="true" />
        row lineage: {found.coverage}
      </span>
      {found.coverage !== "exact" && <Name text={found.why} cut className="quiet" />}
    </span>
  );
}
