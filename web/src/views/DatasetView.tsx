/** A dataset: its schema, versions, quality over time, writers and readers. */
import { type ReactNode, useMemo } from "react";
import type { Dataset, DatasetQuality, DatasetVersion, DatasetVersions, LineageGraph } from "../api/types.ts";
import { type Resource, SLOW, useResource } from "../api/useResource.ts";
import { type JobNode, fromLineage, writtenNow } from "../model/graph.ts";
import { isLong, nodeId, shortened, visible } from "../model/names.ts";
import { to } from "../model/route.ts";
import { type QualityPoint, qualityOf } from "../model/quality.ts";
import { schemaChange } from "../model/runs.ts";
import { compact } from "../model/scale.ts";
import { count, freshness } from "../model/time.ts";
import { Chart, type Series } from "../ui/Chart.tsx";
import { Icon } from "../ui/Icon.tsx";
import { Name } from "../ui/Name.tsx";
import { StateBadge } from "../ui/StateBadge.tsx";
import { When, WhenInPanel } from "../ui/States.tsx";
import { useNow } from "../ui/now.ts";
import { Facets, Panel, Table, Tags, Time } from "../ui/parts.tsx";
import { Link } from "../ui/router.tsx";
import { FailedTests } from "./TestResults.tsx";

export default function DatasetView({ namespace, name }: { namespace: string; name: string }): ReactNode {
  const base = `/namespaces/${encodeURIComponent(namespace)}/datasets/${encodeURIComponent(name)}`;
  const resource = useResource<Dataset>(base);
  return (
    <When resource={resource} what="dataset" rows={8}>
      {(dataset) => (
        <>
          <Users dataset={dataset} />
          <Schema dataset={dataset} />
          <History base={base} />
          <Panel title="Facets">
            <Facets facets={dataset.facets} />
          </Panel>
        </>
      )}
    </When>
  );
}

function Users({ dataset }: { dataset: Dataset }): ReactNode {
  const now = useNow();
  const id = nodeId("dataset", dataset.namespace, dataset.name);
  const resource = useResource<LineageGraph>(`/lineage?nodeId=${encodeURIComponent(id)}&depth=1`);
  const data = resource.state === "ready" ? resource.data : null;
  const graph = useMemo(() => (data ? fromLineage(data) : null), [data]);
  const node = graph?.nodes.find((each) => each.id === id);
  const jobs = (ids: string[]): JobNode[] => (graph?.nodes ?? []).filter((each): each is JobNode => each.kind === "job" && ids.includes(each.id));
  const writers = jobs((graph?.edges ?? []).filter((edge) => edge.to === id).map((edge) => edge.from));
  const readers = jobs((graph?.edges ?? []).filter((edge) => edge.from === id).map((edge) => edge.to));
  const live = node?.kind === "dataset" && writtenNow(node, now);
  return (
    <>
      <div className="head">
        <p className="crumbs">
          <Icon name="dataset" /> {dataset.type === "STREAM" ? "topic" : "dataset"} in <Name text={dataset.namespace} />
        </p>
        <h1 data-long={isLong(dataset.name) ? "" : undefined}>
          <Name text={dataset.name} />
        </h1>
        <div className="line">
          <span className="fresh" data-fresh={freshness(dataset.lastWrittenAt, now)}>
            <i aria-hidden="true" />
            {live ? "written now, by a stream" : dataset.lastWrittenAt ? <>written <Time at={dataset.lastWrittenAt} /></> : "no write seen"}
          </span>
          {dataset.deleted && <span className="tag">deleted</span>}
          {dataset.lastLifecycleState && <span className="tag">{dataset.lastLifecycleState.toLowerCase()}</span>}
          <Tags tags={dataset.tags} />
          <span className="row push">
            <Link className="button" to={to.graph({ node: id, level: "column" })}>
              Columns
            </Link>
            <Link className="button" to={to.graph({ node: id })}>
              <Icon name="graph" /> Graph
            </Link>
          </span>
        </div>
        {dataset.description && <Name text={dataset.description} className="block wrap" lines />}
      </div>
      <div className="columns2">
        <JobNames title="Written by" resource={resource} jobs={writers} none="No job writes it: a source." />
        <JobNames title="Read by" resource={resource} jobs={readers} none="No job reads it." />
      </div>
    </>
  );
}

function JobNames({ title, resource, jobs, none }: { title: string; resource: Resource<LineageGraph>; jobs: readonly JobNode[]; none: string }): ReactNode {
  return (
    <Panel title={title} note={resource.state === "ready" ? String(jobs.length) : ""}>
      <WhenInPanel resource={resource} what="list of jobs">
        {() =>
          jobs.length ? (
            <ul className="names">
              {jobs.map((job) => (
                <li key={job.id}>
                  <Icon name="job" />
                  <Link to={to.job(job.namespace, job.name)}>
                    <Name text={job.name} cut />
                  </Link>
                  <StateBadge state={job.state} streaming={job.streaming} />
                </li>
              ))}
            </ul>
          ) : (
            <p className="quiet pad">{none}</p>
          )
        }
      </WhenInPanel>
    </Panel>
  );
}

function Schema({ dataset }: { dataset: Dataset }): ReactNode {
  const inputs = new Map((dataset.columnLineage ?? []).map((column) => [column.name, column.inputFields]));
  return (
    <Panel title="Schema" note={`${dataset.fields.length} columns`}>
      {dataset.fields.length ? (
        <Table label="Schema" head={["Column", "Type", "Derived from", "Tags", "Description"]}>
          {dataset.fields.map((field) => (
            <tr key={field.name}>
              <th scope="row" className="mono">
                <Link to={to.graph({ node: nodeId("dataset", dataset.namespace, dataset.name), level: "column", column: JSON.stringify([dataset.namespace, dataset.name, field.name]) })}>
                  <Name text={field.name} cut />
                </Link>
              </th>
              <td className="mono">
                <Name text={field.type ?? "–"} cut />
              </td>
              <td className="mono">
                {(inputs.get(field.name) ?? []).map((input) => (
                  <span key={`${input.dataset} ${input.field}`} className="block">
                    <Link to={to.dataset(input.namespace, input.dataset)}>
                      <Name text={shortened(input.dataset, 40)} />
                    </Link>
                    .<Name text={shortened(input.field, 40)} />
                  </span>
                ))}
              </td>
              <td>
                <Tags tags={field.tags} />
              </td>
              <td>
                <Name text={field.description ?? ""} className="wrap" />
              </td>
            </tr>
          ))}
        </Table>
      ) : (
        <p className="quiet pad">No schema was reported.</p>
      )}
    </Panel>
  );
}

function History({ base }: { base: string }): ReactNode {
  const resource = useResource<DatasetVersions>(`${base}/versions?limit=100`, SLOW);
  const quality = useResource<DatasetQuality>(`${base}/quality?limit=100`, SLOW);
  return (
    <When resource={resource} what="list of versions">
      {(data) => (
        <>
          <Quality points={qualityOf(data.versions, quality.state === "ready" ? quality.data.quality : null)} />
          <Panel title="Versions" note={`${data.versions.length} of ${count(data.totalCount)}`}>
            {data.versions.length ? (
              <Table label="Versions" head={["Version", "Since", "Created by run", "Columns", "Change", "Lifecycle"]}>
                {data.versions.slice(0, 50).map((version, at) => (
                  <VersionRow key={version.version} version={version} before={data.versions[at + 1]} />
                ))}
              </Table>
            ) : (
              <p className="quiet pad">No versions.</p>
            )}
          </Panel>
        </>
      )}
    </When>
  );
}

function VersionRow({ version, before }: { version: DatasetVersion; before: DatasetVersion | undefined }): ReactNode {
  const change = before ? schemaChange(before.fields, version.fields) : { added: [], removed: [] };
  return (
    <tr>
      <th scope="row" className="mono">
        {version.version.slice(0, 8)}
      </th>
      <td>
        <Time at={version.createdAt} relative={false} />
      </td>
      <td className="mono">{version.createdByRun ? <Link to={to.run(version.createdByRun.id)}>{version.createdByRun.id.slice(0, 8)}</Link> : "–"}</td>
      <td className="number">{version.fields.length || "–"}</td>
      <td className="mono">
        {change.added.map((name) => (
          <span key={name} className="added">
            +<Name text={name} />{" "}
          </span>
        ))}
        {change.removed.map((name) => (
          <span key={name} className="removed">
            −<Name text={name} />{" "}
          </span>
        ))}
      </td>
      <td>{version.lifecycleState?.toLowerCase() ?? "–"}</td>
    </tr>
  );
}

const TONES: Series["tone"][] = ["bad", "warn", "run", "accent", "quiet"];

function Quality({ points }: { points: readonly QualityPoint[] }): ReactNode {
  const columns = [...new Set(points.flatMap((point) => Object.keys(point.nulls)))].slice(0, TONES.length);
  const tested = points.filter((point) => point.results.length);
  const measured = columns.length > 0 || points.some((point) => point.rowCount !== null);
  return (
    <Panel title="Quality over time" note={points.length ? `${points.length} ${points.length === 1 ? "report" : "reports"}` : ""}>
      {points.length ? (
        <>
          {measured && <div className="columns2 flat">
            <div>
              <h3 className="pad">Rows</h3>
              <Chart label="Rows" format={compact} series={[{ name: "rows", tone: "accent", points: points.map((point) => ({ at: point.at, value: point.rowCount })) }]} />
            </div>
            <div>
              <h3 className="pad">Nulls by column</h3>
              <Chart
                label="Nulls by column"
                format={compact}
                series={columns.map((name, at) => ({ name: shortened(visible(name), 24), tone: TONES[at] ?? "quiet", points: points.map((point) => ({ at: point.at, value: point.nulls[name] ?? null })) }))}
              />
            </div>
          </div>}
          {tested.length > 0 && (
            <Table label="Tests" head={["Tested", "By", "Passed", "Failed", "Failed tests"]}>
              {tested.toReversed().slice(0, 20).map((point) => (
                <TestedRow key={point.key} point={point} />
              ))}
            </Table>
          )}
        </>
      ) : (
        <p className="quiet pad">
          No run has sent the facets <code>dataQualityMetrics</code> or <code>dataQualityAssertions</code>.
        </p>
      )}
    </Panel>
  );
}

function TestedRow({ point }: { point: QualityPoint }): ReactNode {
  const number = (success: boolean): number => point.results.filter((each) => each.success === success).length;
  return (
    <tr>
      <th scope="row">
        <Time at={point.at} relative={false} />
      </th>
      <td>
        {point.run ? (
          <Link to={to.run(point.run.id)} className={point.run.name ? "" : "mono"}>
            <Name text={point.run.name ?? point.run.id.slice(0, 8)} cut />
          </Link>
        ) : (
          "–"
        )}
      </td>
      <td className="number">{number(true)}</td>
      <td className="number">
        {number(false) ? (
          <span className="badge" data-state="FAILED">
            <i aria-hidden="true" />
            {number(false)}
          </span>
        ) : (
          0
        )}
      </td>
      <td>
        <FailedTests results={point.results} />
      </td>
    </tr>
  );
}
