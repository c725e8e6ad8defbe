/** A run: its result, the offsets that its batches read and wrote, and its error. */
import type { ReactNode } from "react";
import type { Run } from "../api/types.ts";
import { useResource } from "../api/useResource.ts";
import { facet, rowsWritten } from "../model/graph.ts";
import { to } from "../model/route.ts";
import { errorOf } from "../model/runs.ts";
import { count, duration } from "../model/time.ts";
import { Icon } from "../ui/Icon.tsx";
import { Name } from "../ui/Name.tsx";
import { StateBadge } from "../ui/StateBadge.tsx";
import { When } from "../ui/States.tsx";
import { useNow } from "../ui/now.ts";
import { Facets, Facts, Json, Panel, Time } from "../ui/parts.tsx";
import { Link } from "../ui/router.tsx";
import { Batches } from "./Batches.tsx";
import { DatasetNames } from "./JobView.tsx";

export default function RunView({ id }: { id: string }): ReactNode {
  const now = useNow(1_000);
  const resource = useResource<Run>(`/jobs/runs/${encodeURIComponent(id)}`);
  return (
    <When resource={resource} what="run" rows={8}>
      {(run) => {
        const error = errorOf(run);
        const progress = facet(run.facets, "headwater_progress");
        const streaming = run.state === "RUNNING" && Object.keys(progress).length > 0;
        const counter = (name: string): string => (typeof progress[name] === "number" ? count(progress[name]) : "–");
        const job = run.jobVersion ?? jobOf(run);
        return (
          <>
            <div className="head">
              <p className="crumbs">
                <Icon name="run" /> run of{" "}
                {job ? (
                  <Link to={to.job(job.namespace, job.name)}>
                    <Name text={job.name} />
                  </Link>
                ) : (
                  "a job"
                )}
              </p>
              <h1 className="mono">{run.id}</h1>
              <div className="line">
                <StateBadge state={run.state} streaming={streaming} />
                <span className="quiet">
                  {run.state === "RUNNING" && run.startedAt ? `for ${duration(now - Date.parse(run.startedAt))}` : run.durationMs !== null ? `took ${duration(run.durationMs)}` : ""}
                </span>
              </div>
            </div>
            {error && (
              <Panel title="Error" className="error">
                <div className="pad">
                  <Name text={error.message} className="block wrap strong" lines />
                  {error.stack && <Json value={error.stack} label="Stack trace" />}
                </div>
              </Panel>
            )}
            <Panel title="Details">
              <Facts
                rows={[
                  ["started", <Time key="b" at={run.startedAt} relative={false} />],
                  ["ended", <Time key="e" at={run.endedAt} relative={false} />],
                  ["last event", <Time key="l" at={run.updatedAt} />],
                  ["rows written", count(rowsWritten(run))],
                  ...(Object.keys(progress).length
                    ? ([
                        ["rows read", counter("rowsIn")],
                        ["with lineage", counter("rowsWithLineage")],
                        ["late", counter("lateRows")],
                        ["dead letters", counter("deadLettered")],
                        ["lag", counter("lag")],
                      ] as const)
                    : []),
                  ...costOf(run),
                ]}
              />
            </Panel>
            <Batches id={id} />
            <div className="columns2">
              <DatasetNames title="Read" names={run.inputDatasetVersions.map((each) => each.datasetVersionId)} />
              <DatasetNames title="Wrote" names={run.outputDatasetVersions.map((each) => each.datasetVersionId)} />
            </div>
            <Panel title="Facets of the run">
              <Facets facets={run.facets} />
            </Panel>
          </>
        );
      }}
    </When>
  );
}

/** The cost of its tasks, if the run reports it. */
function costOf(run: Run): (readonly [string, string])[] {
  const cost = facet(run.facets, "headwater_cost");
  const money = facet(cost, "money");
  const rows: (readonly [string, string])[] = [];
  if (typeof cost["coreSeconds"] === "number") rows.push(["core time", duration(cost["coreSeconds"] * 1000)]);
  if (typeof money["amount"] === "number") rows.push(["cost", `${count(money["amount"])} ${String(money["currency"] ?? "")}`]);
  return rows;
}

function jobOf(run: Run): { namespace: string; name: string } | null {
  const { namespace, name } = run.args as { namespace?: unknown; name?: unknown };
  return typeof namespace === "string" && typeof name === "string" ? { namespace, name } : null;
}
