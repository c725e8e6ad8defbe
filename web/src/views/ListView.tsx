/** All jobs, or the datasets of a namespace. */
import type { ReactNode } from "react";
import type { Datasets, Jobs, Namespaces } from "../api/shapes.ts";
import { useAnswer } from "../api/useAnswer.ts";
import { nodeId, visible } from "../model/names.ts";
import { rowsWritten } from "../model/graph.ts";
import { to } from "../model/route.ts";
import { count, duration } from "../model/time.ts";
import { Name } from "../ui/Name.tsx";
import { StateBadge } from "../ui/StateBadge.tsx";
import { Notice, When } from "../ui/States.tsx";
import { Panel, Table, Time } from "../ui/parts.tsx";
import { Link, useQuery } from "../ui/router.tsx";

const MOST = 200;

export default function ListView({ kind }: { kind: "jobs" | "datasets" }): ReactNode {
  const [query, change] = useQuery();
  const spaces = useAnswer<Namespaces>("/namespaces?limit=1000", 10_000);
  const names = spaces.state === "ready" ? spaces.data.namespaces.filter((each) => !each.isHidden).map((each) => each.name) : [];
  const wanted = query.get("namespace");
  const state = query.get("state") ?? "";
  return (
    <>
      <div className="bar">
        <h1>{kind === "jobs" ? "Jobs" : "Datasets"}</h1>
        <label>
          Namespace
          <select value={wanted ?? ""} onChange={(event) => change({ namespace: event.target.value || null })}>
            <option value="">{kind === "jobs" ? "all" : "choose"}</option>
            {names.map((name) => (
              <option key={name} value={name}>
                {visible(name)}
              </option>
            ))}
          </select>
        </label>
        {kind === "jobs" && (
          <label>
            Last run
            <select value={state} onChange={(event) => change({ state: event.target.value || null })}>
              <option value="">any state</option>
              {["RUNNING", "FAILED", "ABORTED", "COMPLETED", "NEW"].map((each) => (
                <option key={each} value={each}>
                  {each.toLowerCase()}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      {kind === "jobs" ? <JobList namespace={wanted} state={state} /> : <DatasetLists namespaces={wanted ? [wanted] : names} loading={spaces.state === "loading"} />}
    </>
  );
}

function JobList({ namespace, state }: { namespace: string | null; state: string }): ReactNode {
  const base = namespace ? `/namespaces/${encodeURIComponent(namespace)}/jobs` : "/jobs";
  const asked = useAnswer<Jobs>(`${base}?limit=${MOST}${state ? `&lastRunStates=${state}` : ""}`);
  return (
    <When asked={asked} what="list" rows={8}>
      {(data) =>
        data.jobs.length ? (
          <Panel title="Jobs" aside={`${data.jobs.length} of ${count(data.totalCount)}, the last changed first`}>
            <Table label="Jobs" head={["Job", "Namespace", "Last run", "Changed", "Took", "Rows", ""]}>
              {data.jobs.map((job) => (
                <tr key={`${job.namespace} ${job.name}`}>
                  <th scope="row">
                    <Link to={to.job(job.namespace, job.name)}>
                      <Name text={job.name} cut />
                    </Link>
                  </th>
                  <td>
                    <Name text={job.namespace} cut className="quiet" />
                  </td>
                  <td>
                    <StateBadge state={job.latestRun?.state} streaming={job.type === "STREAM"} />
                  </td>
                  <td>
                    <Time at={job.latestRun?.updatedAt ?? job.updatedAt} />
                  </td>
                  <td className="number">{job.latestRun?.durationMs ? duration(job.latestRun.durationMs) : "–"}</td>
                  <td className="number">{job.latestRun ? count(rowsWritten(job.latestRun)) : "–"}</td>
                  <td>
                    <Link to={to.graph({ node: nodeId("job", job.namespace, job.name) })}>graph</Link>
                  </td>
                </tr>
              ))}
            </Table>
          </Panel>
        ) : (
          <Notice icon="job" title={state || namespace ? "No job is like that" : "No job has told of itself yet"}>
            <p>
              Jobs appear when they send OpenLineage events here: set <code>MARQUEZ_URL</code> for them to this service.
            </p>
          </Notice>
        )
      }
    </When>
  );
}

function DatasetLists({ namespaces, loading }: { namespaces: readonly string[]; loading: boolean }): ReactNode {
  if (loading) return null;
  return namespaces.map((namespace) => <DatasetList key={namespace} namespace={namespace} alone={namespaces.length === 1} />);
}

function DatasetList({ namespace, alone }: { namespace: string; alone: boolean }): ReactNode {
  const asked = useAnswer<Datasets>(`/namespaces/${encodeURIComponent(namespace)}/datasets?limit=${MOST}`, 10_000);
  if (asked.state === "ready" && !asked.data.datasets.length && !alone) return null;
  return (
    <When asked={asked} what="list">
      {(data) =>
        data.datasets.length ? (
          <Panel title={namespace} aside={`${data.datasets.length} of ${count(data.totalCount)}`}>
            <Table label={`Datasets of ${namespace}`} head={["Dataset", "Columns", "Changed", "Tags", ""]}>
              {data.datasets.map((dataset) => (
                <tr key={dataset.name}>
                  <th scope="row">
                    <Link to={to.dataset(dataset.namespace, dataset.name)}>
                      <Name text={dataset.name} cut />
                    </Link>
                  </th>
                  <td className="number">{dataset.fields.length || "–"}</td>
                  <td>
                    <Time at={dataset.updatedAt} />
                  </td>
                  <td>{dataset.tags.join(", ")}</td>
                  <td>
                    <Link to={to.graph({ node: nodeId("dataset", dataset.namespace, dataset.name) })}>graph</Link>
                  </td>
                </tr>
              ))}
            </Table>
          </Panel>
        ) : (
          <Notice icon="dataset" title="This namespace has no datasets">
            <p>They appear when a job that reads or writes them sends an event.</p>
          </Notice>
        )
      }
    </When>
  );
}
