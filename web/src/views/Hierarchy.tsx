/** Jobs that start other jobs, and runs that start other runs. */
import type { ReactNode } from "react";
import type { JobHierarchy, ListedRun, RunHierarchy } from "../api/types.ts";
import type { Resource } from "../api/useResource.ts";
import { to } from "../model/route.ts";
import { count, duration } from "../model/time.ts";
import { Name } from "../ui/Name.tsx";
import { StateBadge } from "../ui/StateBadge.tsx";
import { WhenInPanel } from "../ui/States.tsx";
import { Panel, Table, Time } from "../ui/parts.tsx";
import { Link } from "../ui/router.tsx";

export const MAX_CHILDREN = 100;

/** Most jobs and runs start no others; then nothing is shown. */
function hasChildren(resource: Resource<JobHierarchy | RunHierarchy>): boolean {
  return resource.state === "problem" ? resource.problem.status !== 404 : resource.state === "ready" && resource.data.totalCount > 0;
}

const note = (data: { children: readonly unknown[]; totalCount: number }): string =>
  data.children.length === data.totalCount ? count(data.totalCount) : `${data.children.length} of ${count(data.totalCount)}`;

/** The job that starts this one. */
export function ParentJob({ resource }: { resource: Resource<JobHierarchy> }): ReactNode {
  const parent = resource.state === "ready" ? resource.data.parent : null;
  if (!parent) return null;
  return (
    <span className="quiet">
      started by{" "}
      <Link to={to.job(parent.namespace, parent.name)}>
        <Name text={parent.name} />
      </Link>
    </span>
  );
}

/** The jobs that a job starts, each with its last run. */
export function ChildJobs({ resource }: { resource: Resource<JobHierarchy> }): ReactNode {
  if (!hasChildren(resource)) return null;
  return (
    <Panel title="Starts these jobs" note={resource.state === "ready" ? note(resource.data) : ""}>
      <WhenInPanel resource={resource} what="list of jobs">
        {(data) => (
          <Table label="Jobs that it starts" head={["Job", "Last run", "State", "Started", "Duration"]}>
            {data.children.map((child) => (
              <tr key={`${child.namespace} ${child.name}`}>
                <th scope="row">
                  <Link to={to.job(child.namespace, child.name)} title={child.name}>
                    <Name text={child.simpleName} cut />
                  </Link>
                </th>
                <RunCells run={child.latestRun} streaming={child.type === "STREAM"} />
              </tr>
            ))}
          </Table>
        )}
      </WhenInPanel>
    </Panel>
  );
}

/** The runs that a run started. */
export function ChildRuns({ resource }: { resource: Resource<RunHierarchy> }): ReactNode {
  if (!hasChildren(resource)) return null;
  return (
    <Panel title="Started these runs" note={resource.state === "ready" ? note(resource.data) : ""}>
      <WhenInPanel resource={resource} what="list of runs">
        {(data) => (
          <Table label="Runs that it started" head={["Job", "Run", "State", "Started", "Duration"]}>
            {data.children.map((child) => (
              <tr key={child.id}>
                <th scope="row">
                  <Link to={to.job(child.namespace, child.name)}>
                    <Name text={child.name} cut />
                  </Link>
                </th>
                <RunCells run={child} />
              </tr>
            ))}
          </Table>
        )}
      </WhenInPanel>
    </Panel>
  );
}

function RunCells({ run, streaming = false }: { run: ListedRun | null; streaming?: boolean }): ReactNode {
  return (
    <>
      <td className="mono">{run ? <Link to={to.run(run.id)}>{run.id.slice(0, 8)}</Link> : "–"}</td>
      <td>
        <StateBadge state={run?.state} streaming={streaming} />
      </td>
      <td>
        <Time at={run?.startedAt} relative={false} />
      </td>
      <td className="number">{duration(run?.durationMs)}</td>
    </>
  );
}

/** The run that started this one. */
export function ParentRun({ run }: { run: ListedRun }): ReactNode {
  return (
    <>
      , started by run{" "}
      <Link className="mono" to={to.run(run.id)}>
        {run.id.slice(0, 8)}
      </Link>{" "}
      of{" "}
      <Link to={to.job(run.namespace, run.name)}>
        <Name text={run.name} />
      </Link>
    </>
  );
}
