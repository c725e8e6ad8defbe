/** A job: its state, runs over time, inputs and outputs, and versions. */
import type { ReactNode } from "react";
import type { Job, JobHierarchy, JobVersion, JobVersions, Run, Runs } from "../api/types.ts";
import { type Resource, SLOW, useResource } from "../api/useResource.ts";
import { rowsWritten } from "../model/graph.ts";
import { isLong, nodeId, visible } from "../model/names.ts";
import { to } from "../model/route.ts";
import { compareVersions, errorOf } from "../model/runs.ts";
import { compact } from "../model/scale.ts";
import { clock, count, duration, shortDuration } from "../model/time.ts";
import { Chart } from "../ui/Chart.tsx";
import { Icon } from "../ui/Icon.tsx";
import { Name } from "../ui/Name.tsx";
import { RowLineageBadge } from "../ui/RowLineageBadge.tsx";
import { StateBadge } from "../ui/StateBadge.tsx";
import { Notice, When } from "../ui/States.tsx";
import { Timeline } from "../ui/Timeline.tsx";
import { useNow } from "../ui/now.ts";
import { Facets, Panel, Table, Tags, Time } from "../ui/parts.tsx";
import { Link, useQuery } from "../ui/router.tsx";
import { Batches } from "./Batches.tsx";
import { ChildJobs, MAX_CHILDREN, ParentJob } from "./Hierarchy.tsx";

const MAX_RUNS = 100;

export default function JobView({ namespace, name }: { namespace: string; name: string }): ReactNode {
  const base = `/namespaces/${encodeURIComponent(namespace)}/jobs/${encodeURIComponent(name)}`;
  const resource = useResource<Job>(base);
  const runs = useResource<Runs>(`${base}/runs?limit=${MAX_RUNS}`);
  const hierarchy = useResource<JobHierarchy>(`${base}/hierarchy?limit=${MAX_CHILDREN}`);
  return (
    <When resource={resource} what="job" rows={8}>
      {(job) => (
        <>
          <Head job={job} hierarchy={hierarchy} />
          <ChildJobs resource={hierarchy} />
          <When resource={runs} what="list of runs">
            {(data) =>
              data.runs.length ? (
                <RunsOfJob runs={data.runs} total={data.totalCount} streaming={job.type === "STREAM"} />
              ) : (
                <Notice icon="run" title="No runs yet">
                  <p>Runs appear with their first event.</p>
                </Notice>
              )
            }
          </When>
          <div className="columns2">
            <DatasetNames title="Reads" names={job.inputs} />
            <DatasetNames title="Writes" names={job.outputs} />
          </div>
          <Versions base={base} />
          <Panel title="Facets of the job">
            <Facets facets={job.facets} />
          </Panel>
        </>
      )}
    </When>
  );
}

function Head({ job, hierarchy }: { job: Job; hierarchy: Resource<JobHierarchy> }): ReactNode {
  return (
    <div className="head">
      <p className="crumbs">
        <Icon name="job" /> {job.type === "STREAM" ? "streaming job" : "job"} in <Name text={job.namespace} />
      </p>
      <h1 data-long={isLong(job.name) ? "" : undefined}>
        <Name text={job.name} />
      </h1>
      <div className="line">
        <StateBadge state={job.latestRun?.state} streaming={job.type === "STREAM"} />
        {job.latestRun && (
          <span className="quiet">
            <Link to={to.run(job.latestRun.id)}>last run</Link> <Time at={job.latestRun.updatedAt} />
          </span>
        )}
        <RowLineageBadge run={job.latestRun} />
        <ParentJob resource={hierarchy} />
        <Tags tags={job.tags} />
        <Link className="button push" to={to.graph({ node: nodeId("job", job.namespace, job.name) })}>
          <Icon name="graph" /> Graph
        </Link>
      </div>
      {job.description && <Name text={job.description} className="block wrap" lines />}
    </div>
  );
}

function RunsOfJob({ runs, total, streaming }: { runs: readonly Run[]; total: number; streaming: boolean }): ReactNode {
  const now = useNow();
  const oldest = runs.toReversed();
  const at = (run: Run): number => Date.parse(run.startedAt ?? run.createdAt);
  return (
    <>
      <Panel title="Runs" note={`${runs.length} of ${count(total)}`}>
        <Timeline runs={runs} now={now} streaming={streaming} />
      </Panel>
      {streaming && runs[0] && <Batches id={runs[0].id} />}
      {/* A stream is one long run: its batches are more useful. */}
      {(!streaming || runs.length > 1) && <div className="columns2">
        <Panel title="Duration">
          <Chart label="Duration of runs" kind="dots" format={shortDuration} series={[{ name: "duration", tone: "run", points: oldest.map((run) => ({ at: at(run), value: run.durationMs, state: run.state })) }]} />
        </Panel>
        <Panel title="Rows written">
          <Chart label="Rows written by runs" kind="dots" format={compact} series={[{ name: "rows", tone: "accent", points: oldest.map((run) => ({ at: at(run), value: rowsWritten(run), state: run.state })) }]} />
        </Panel>
      </div>}
      <Panel title="Latest runs">
        <Table label="Latest runs" head={["Run", "State", "Started", "Duration", "Rows", "Error"]}>
          {runs.slice(0, 25).map((run) => (
            <tr key={run.id}>
              <th scope="row" className="mono">
                <Link to={to.run(run.id)}>{run.id.slice(0, 8)}</Link>
              </th>
              <td>
                <StateBadge state={run.state} streaming={streaming} />
              </td>
              <td>
                <Time at={run.startedAt ?? run.createdAt} relative={false} />
              </td>
              <td className="number">{duration(run.durationMs)}</td>
              <td className="number">{count(rowsWritten(run))}</td>
              <td>
                <Name text={errorOf(run)?.message ?? ""} cut className="bad" />
              </td>
            </tr>
          ))}
        </Table>
      </Panel>
    </>
  );
}

export function DatasetNames({ title, names }: { title: string; names: readonly { namespace: string; name: string }[] }): ReactNode {
  return (
    <Panel title={title} note={String(names.length)}>
      {names.length ? (
        <ul className="names">
          {names.map((each) => (
            <li key={`${each.namespace} ${each.name}`}>
              <Icon name="dataset" />
              <Link to={to.dataset(each.namespace, each.name)}>
                <Name text={each.name} cut />
              </Link>
              <Name text={each.namespace} cut className="quiet" />
            </li>
          ))}
        </ul>
      ) : (
        <p className="quiet pad">None reported.</p>
      )}
    </Panel>
  );
}

function Versions({ base }: { base: string }): ReactNode {
  const resource = useResource<JobVersions>(`${base}/versions?limit=50`, SLOW);
  return (
    <When resource={resource} what="list of versions">
      {(data) => (
        <Panel title="Versions" note="inputs, outputs and code location">
          {data.versions.length > 1 ? <Compare versions={data.versions} /> : <VersionLine version={data.versions[0]} />}
        </Panel>
      )}
    </When>
  );
}

function VersionLine({ version }: { version: JobVersion | undefined }): ReactNode {
  if (!version) return <p className="quiet pad">A version is created when a run ends.</p>;
  return (
    <p className="pad">
      One version, <code>{version.version.slice(0, 8)}</code>, since {clock(version.createdAt)}. With a second one, both can be compared.
    </p>
  );
}

function Compare({ versions }: { versions: readonly JobVersion[] }): ReactNode {
  const [query, change] = useQuery();
  const onlyDifferent = query.get("differs") === "only";
  const find = (name: string, otherwise: number): JobVersion | undefined => versions.find((each) => each.version === query.get(name)) ?? versions[otherwise];
  const [left, right] = [find("left", 1), find("right", 0)];
  if (!left || !right) return null;
  const rows = compareVersions(left, right).filter((row) => !onlyDifferent || !row.same);
  const choice = (name: "left" | "right", value: string): ReactNode => (
    <select aria-label={`${name} version`} value={value} onChange={(event) => change({ [name]: event.target.value })}>
      {versions.map((each) => (
        <option key={each.version} value={each.version}>
          {each.version.slice(0, 8)}, {clock(each.createdAt)}
        </option>
      ))}
    </select>
  );
  return (
    <>
      <label className="pad check">
        <input type="checkbox" checked={onlyDifferent} onChange={(event) => change({ differs: event.target.checked ? "only" : null })} /> Only differences
      </label>
      <div className="scroll" tabIndex={0} role="region" aria-label="Two versions side by side">
        <table className="compare">
          <thead>
            <tr>
              <th scope="col">
                <span className="hidden">Property</span>
              </th>
              <th scope="col">{choice("left", left.version)}</th>
              <th scope="col">{choice("right", right.version)}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.what} data-same={row.same ? "" : undefined}>
                <th scope="row">
                  <Name text={row.what} />
                </th>
                <td>
                  <pre>{visible(row.left, true)}</pre>
                </td>
                <td>
                  <pre>{visible(row.right, true)}</pre>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
