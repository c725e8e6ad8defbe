/** All jobs, or the datasets of a namespace. */
import { type ReactNode, useCallback, useEffect, useState } from "react";
import type { Datasets, Jobs, Namespaces } from "../api/types.ts";
import { type Resource, SLOW, useResource } from "../api/useResource.ts";
import { nodeId, visible } from "../model/names.ts";
import { rowsWritten } from "../model/graph.ts";
import { to } from "../model/route.ts";
import { count, duration } from "../model/time.ts";
import { Name } from "../ui/Name.tsx";
import { StateBadge } from "../ui/StateBadge.tsx";
import { Notice, When, WhenInPanel } from "../ui/States.tsx";
import { Panel, Table, Tags, Time } from "../ui/parts.tsx";
import { Link, useQuery } from "../ui/router.tsx";

const LIMIT = 200;
// Each namespace is a separate request: with more of them one has to be selected.
const MAX_LISTS = 20;

export default function ListView({ kind }: { kind: "jobs" | "datasets" }): ReactNode {
  const [query, change] = useQuery();
  const spaces = useResource<Namespaces>("/namespaces?limit=1000", SLOW);
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
            <option value="">{kind === "jobs" || names.length <= MAX_LISTS ? "all" : "choose"}</option>
            {[...new Set([...names, ...(wanted ? [wanted] : [])])].map((name) => (
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
      {kind === "jobs" ? <JobList namespace={wanted} state={state} /> : <DatasetLists resource={spaces} names={names} wanted={wanted} />}
    </>
  );
}

function JobList({ namespace, state }: { namespace: string | null; state: string }): ReactNode {
  const base = namespace ? `/namespaces/${encodeURIComponent(namespace)}/jobs` : "/jobs";
  const resource = useResource<Jobs>(`${base}?limit=${LIMIT}${state ? `&lastRunStates=${state}` : ""}`);
  return (
    <When resource={resource} what="list" rows={8}>
      {(data) =>
        data.jobs.length ? (
          <Panel title="Jobs" note={`${data.jobs.length} of ${count(data.totalCount)}, most recently changed first`}>
            <Table label="Jobs" head={["Job", "Namespace", "Last run", "Changed", "Duration", "Rows", ""]}>
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
          <Notice icon="job" title={state || namespace ? "No matching jobs" : "No jobs yet"}>
            <p>
              Jobs appear when they send OpenLineage events: set their <code>MARQUEZ_URL</code> to this service.
            </p>
          </Notice>
        )
      }
    </When>
  );
}

function DatasetLists({ resource, names, wanted }: { resource: Resource<Namespaces>; names: readonly string[]; wanted: string | null }): ReactNode {
  // A namespace in the URL can be shown without the list of all.
  if (wanted) return <DatasetList namespace={wanted} alone />;
  return (
    <When resource={resource} what="list" rows={8}>
      {() => (names.length > MAX_LISTS ? <Choose names={names} /> : <AllLists names={names} />)}
    </When>
  );
}

function Choose({ names }: { names: readonly string[] }): ReactNode {
  return (
    <Panel title="Choose a namespace" note={`${count(names.length)} namespaces`}>
      <ul className="choices">
        {names.map((name) => (
          <li key={name}>
            <Link to={to.datasets({ namespace: name })}>
              <Name text={name} cut />
            </Link>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

/** The lists of all namespaces that have datasets, or a notice if none has. */
function AllLists({ names }: { names: readonly string[] }): ReactNode {
  const [empty, setEmpty] = useState<ReadonlySet<string>>(new Set());
  const reportEmpty = useCallback(
    (namespace: string, none: boolean) =>
      setEmpty((before) => {
        if (before.has(namespace) === none) return before;
        return none ? new Set([...before, namespace]) : new Set([...before].filter((each) => each !== namespace));
      }),
    [],
  );
  return (
    <>
      {names.map((namespace) => (
        <DatasetList key={namespace} namespace={namespace} alone={false} reportEmpty={reportEmpty} />
      ))}
      {names.every((name) => empty.has(name)) && (
        <Notice icon="dataset" title="No datasets yet">
          <p>They appear when a job that reads or writes them sends an event.</p>
        </Notice>
      )}
    </>
  );
}

interface ListProps {
  namespace: string;
  alone: boolean;
  /** Called with whether the namespace has no datasets. */
  reportEmpty?: (namespace: string, none: boolean) => void;
}

function DatasetList({ namespace, alone, reportEmpty }: ListProps): ReactNode {
  const resource = useResource<Datasets>(`/namespaces/${encodeURIComponent(namespace)}/datasets?limit=${LIMIT}`, SLOW);
  const none = resource.state === "ready" && !resource.data.datasets.length;
  useEffect(() => reportEmpty?.(namespace, none), [reportEmpty, namespace, none]);
  if (none && !alone) return null;
  if (resource.state === "problem" && !alone) {
    return (
      <Panel title={namespace}>
        <WhenInPanel resource={resource} what="list">
          {() => null}
        </WhenInPanel>
      </Panel>
    );
  }
  const missing = (
    <Notice icon="search" title="There is no such namespace">
      <p>
        <Link to={to.datasets()}>Show all namespaces</Link>
      </p>
    </Notice>
  );
  return (
    <When resource={resource} what="list" missing={missing}>
      {(data) =>
        data.datasets.length ? (
          <Panel title={namespace} note={`${data.datasets.length} of ${count(data.totalCount)}`}>
            <Table label={`Datasets of ${namespace}`} head={["Dataset", "Columns", "Written", "Tags", ""]}>
              {data.datasets.map((dataset) => (
                <tr key={dataset.name}>
                  <th scope="row">
                    <Link to={to.dataset(dataset.namespace, dataset.name)}>
                      <Name text={dataset.name} cut />
                    </Link>
                  </th>
                  <td className="number">{dataset.fields.length || "–"}</td>
                  <td>
                    <Time at={dataset.lastWrittenAt} />
                  </td>
                  <td>
                    <Tags tags={dataset.tags} />
                  </td>
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
