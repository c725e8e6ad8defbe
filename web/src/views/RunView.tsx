/** A run: its result, the offsets that its batches read and wrote, and its error. */
import type { ReactNode } from "react";
import type { Run, RunHierarchy } from "../api/types.ts";
import { useResource } from "../api/useResource.ts";
import { facet, rowsWritten } from "../model/graph.ts";
import { to } from "../model/route.ts";
import { shortened } from "../model/names.ts";
import { type TestResult, testsOf } from "../model/quality.ts";
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
import { ChildRuns, MAX_CHILDREN, ParentRun } from "./Hierarchy.tsx";
import { DatasetNames } from "./JobView.tsx";
import { RunEvents } from "./RunEvents.tsx";
import { TestResults } from "./TestResults.tsx";

export default function RunView({ id }: { id: string }): ReactNode {
  const now = useNow(1_000);
  const path = `/jobs/runs/${encodeURIComponent(id)}`;
  const resource = useResource<Run>(path);
  const hierarchy = useResource<RunHierarchy>(`${path}/hierarchy?limit=${MAX_CHILDREN}`);
  const family = hierarchy.state === "ready" ? hierarchy.data : null;
  return (
    <When resource={resource} what="run" rows={8}>
      {(run) => {
        const error = errorOf(run);
        const progress = facet(run.facets, "headwater_progress");
        const streaming = run.state === "RUNNING" && Object.keys(progress).length > 0;
        const counter = (name: string): string => (typeof progress[name] === "number" ? count(progress[name]) : "–");
        const tests = testsOf(run);
        const job = run.jobVersion ?? family?.job;
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
                {family?.parent && <ParentRun run={family.parent} />}
              </p>
              <h1 className="mono">{run.id}</h1>
              <div className="line">
                <StateBadge state={run.state} streaming={streaming} />
                <span className="quiet">
                  {run.state === "RUNNING" && run.startedAt ? `for ${duration(now - Date.parse(run.startedAt))}` : run.durationMs !== null ? `took ${duration(run.durationMs)}` : ""}
                </span>
                {run.state === "FAILED" && !error && <Cause tests={tests} family={family} />}
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
            <TestResults results={tests} />
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
            <ChildRuns resource={hierarchy} />
            <Batches id={id} />
            <div className="columns2">
              <DatasetNames title="Read" names={run.inputDatasetVersions.map((each) => each.datasetVersionId)} />
              <DatasetNames title="Wrote" names={run.outputDatasetVersions.map((each) => each.datasetVersionId)} />
            </div>
            <Panel title="Facets of the run">
              <Facets facets={run.facets} />
            </Panel>
            <RunEvents id={id} />
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

/** Why a run failed that sent no error: failed tests, or failed runs that it started. */
function Cause({ tests, family }: { tests: readonly TestResult[]; family: RunHierarchy | null }): ReactNode {
  const failed = tests.filter((each) => each.success === false && each.severity !== "warn");
  const children = (family?.children ?? []).filter((child) => child.state === "FAILED");
  const names = failed.length ? failed.map((each) => (each.column ? `${each.name} on ${each.column}` : each.name)) : children.map((child) => child.name);
  if (!names.length) return null;
  const what = failed.length ? "tests failed" : "runs that it started failed";
  return (
    <span className="bad">
      {names.length === 1 ? what.replace("tests", "test").replace("runs that it started", "the run that it started") : `${names.length} ${what}`}: <Name text={shortened(names.slice(0, 3).join(", "), 160)} />
      {names.length > 3 && ", …"}
    </span>
  );
}
