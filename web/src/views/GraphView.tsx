/** The graph: complete, or around a node; of datasets or columns; now or in the past. */
import { type ReactNode, useMemo, useState } from "react";
import type { LineageGraph, Namespaces } from "../api/types.ts";
import { type Resource, LIVE, SLOW, useResource } from "../api/useResource.ts";
import { type Direction, DIRECTIONS, type Graph, around, fromLineage, momentsOf, namespacesOf, only } from "../model/graph.ts";
import { visible } from "../model/names.ts";
import { to } from "../model/route.ts";
import { count } from "../model/time.ts";
import { Name } from "../ui/Name.tsx";
import { Notice, When } from "../ui/States.tsx";
import { Tabs } from "../ui/parts.tsx";
import { Link, useQuery } from "../ui/router.tsx";
import { ColumnGraphPart } from "./ColumnGraphPart.tsx";
import { JobGraphPart } from "./JobGraphPart.tsx";
import { TimeSlider } from "./TimeSlider.tsx";

const DEPTHS = [1, 2, 3, 5, 10, 20];
const DIRECTION_WORDS: Record<Direction, string> = { both: "Both", upstream: "Upstream", downstream: "Downstream" };

export default function GraphView(): ReactNode {
  const [query] = useQuery();
  const node = query.get("node");
  return node ? <Around key={node} node={node} /> : <CompleteGraph />;
}

function useChoices(): { direction: Direction; depth: number; namespace: string; chosen: string | null; at: string | null } {
  const [query] = useQuery();
  const direction = query.get("direction") as Direction | null;
  const depth = Number(query.get("depth"));
  return {
    direction: direction && DIRECTIONS.includes(direction) ? direction : "both",
    depth: Number.isInteger(depth) && depth > 0 && depth <= 100 ? depth : 5,
    namespace: query.get("namespace") ?? "",
    chosen: query.get("chosen"),
    at: query.get("at"),
  };
}

interface GraphAt {
  /** Stays until the next response arrives: moving the slider must not flicker. */
  shown: Resource<LineageGraph>;
  graph: Graph | null;
  moments: number[];
}

/** A graph now or at a moment in the past; the stops of the slider are those of the current graph. */
function useGraphAt(path: string, at: string | null, every: number): GraphAt {
  const present = useResource<LineageGraph>(path, at ? SLOW : every);
  const past = useResource<LineageGraph>(at ? `${path}${path.includes("?") ? "&" : "?"}at=${encodeURIComponent(at)}` : null, 0);
  const resource = at ? past : present;
  const [kept, keep] = useState<{ path: string; data: LineageGraph } | null>(null);
  if (resource.state === "ready" && resource.data !== kept?.data) keep({ path, data: resource.data });
  const shown: Resource<LineageGraph> = resource.state === "loading" && kept?.path === path ? { state: "ready", data: kept.data, stale: null, retry: () => undefined } : resource;
  const [presentData, shownData] = [present, shown].map((each) => (each.state === "ready" ? each.data : null)) as [LineageGraph | null, LineageGraph | null];
  const moments = useMemo(() => (presentData ? momentsOf(fromLineage(presentData)) : []), [presentData]);
  const graph = useMemo(() => (shownData ? fromLineage(shownData) : null), [shownData]);
  return { shown, graph, moments };
}

/** The complete graph, or that of a namespace. */
function CompleteGraph(): ReactNode {
  const { namespace, chosen, at } = useChoices();
  const [, change] = useQuery();
  const { shown, graph, moments } = useGraphAt(namespace ? `/graph?namespace=${encodeURIComponent(namespace)}` : "/graph", at, SLOW);
  const spaces = useResource<Namespaces>("/namespaces?limit=1000", SLOW);
  const names = spaces.state === "ready" ? spaces.data.namespaces.map((each) => each.name) : [];
  const some = graph !== null && graph.nodes.length > 0;
  return (
    <div className="graphview">
      <div className="bar">
        <h1>Graph</h1>
        <NamespaceChoice names={names} />
        {some && (
          <p className="quiet push">
            {summary(graph)}. Select a node, then <b>Around it</b>: depth, direction, columns.
          </p>
        )}
      </div>
      {moments.length > 1 && <TimeSlider moments={moments} at={at} choose={(value) => change({ at: value })} />}
      <When resource={shown} what="graph" rows={6}>
        {() => (some ? <JobGraphPart graph={graph} start={null} chosen={chosen} past={at} /> : <EmptyGraph namespace={namespace} at={at} />)}
      </When>
    </div>
  );
}

function EmptyGraph({ namespace, at }: { namespace: string; at: string | null }): ReactNode {
  if (at) {
    return (
      <Notice icon="clock" title="No data for that time">
        <p>All events are newer. Move the slider to the right.</p>
      </Notice>
    );
  }
  if (namespace) {
    return (
      <Notice icon="graph" title="No job is in this namespace or uses its datasets">
        <p>
          <Link to={to.graph()}>Show all namespaces</Link>
        </p>
      </Notice>
    );
  }
  return (
    <Notice icon="graph" title="No events yet">
      <p>
        The graph is built from OpenLineage events. Point jobs at this service with <code>MARQUEZ_URL</code>, or run <code>make demo</code>.
      </p>
    </Notice>
  );
}

function Around({ node }: { node: string }): ReactNode {
  const { direction, depth, namespace, chosen, at } = useChoices();
  const [query, change] = useQuery();
  const level = query.get("level") === "column" ? "column" : "dataset";
  const { shown, graph: fullGraph, moments } = useGraphAt(`/lineage?nodeId=${encodeURIComponent(node)}&depth=${depth}`, at, LIVE);
  const graph = useMemo(() => {
    if (!fullGraph) return null;
    const near = around(fullGraph, node, direction, depth);
    return namespace ? only(near, (each) => each.namespace === namespace || each.id === node) : near;
  }, [fullGraph, node, direction, depth, namespace]);
  const kind = node.slice(0, node.indexOf(":"));
  // A name may contain colons: the response has the exact name.
  const start = fullGraph?.nodes.find((each) => each.id === node);
  const name = start?.name ?? node.slice(node.lastIndexOf(":") + 1);
  // The service returns a known node alone, even for a time before its first event.
  const tooEarly = at !== null && start?.createdAt !== undefined && start.createdAt !== null && Date.parse(start.createdAt) > Date.parse(at);
  const unknown = (
    <Notice icon="search" title={at ? "It did not exist then" : `There is no such ${kind}`}>
      <p>
        <Name text={node} /> {at ? "appeared later." : "has no events."}
      </p>
    </Notice>
  );

  return (
    <div className="graphview">
      <div className="bar">
        <h1>
          <Link to={to.graph()}>Graph</Link>
          <span className="quiet">around {kind}</span>
          <Name text={name} cut />
        </h1>
        <Tabs label="Level" tabs={[["dataset", "Datasets"], ["column", "Columns"]] as const} chosen={level} choose={(value) => change({ level: value === "dataset" ? null : value, column: null })} />
        <Tabs label="Direction" tabs={DIRECTIONS.map((each) => [each, DIRECTION_WORDS[each]] as const)} chosen={direction} choose={(value) => change({ direction: value === "both" ? null : value })} />
        <label>
          Depth
          <select value={depth} onChange={(event) => change({ depth: event.target.value === "5" ? null : event.target.value })}>
            {[...new Set([...DEPTHS, depth])].toSorted((a, b) => a - b).map((each) => (
              <option key={each} value={each}>
                {each} {each === 1 ? "job" : "jobs"}
              </option>
            ))}
          </select>
        </label>
        {level === "dataset" && fullGraph && <NamespaceChoice names={namespacesOf(fullGraph)} />}
      </div>
      {level === "column" ? (
        <ColumnGraphPart node={node} depth={depth} direction={direction} />
      ) : (
        <>
          {moments.length > 1 && <TimeSlider moments={moments} at={at} choose={(value) => change({ at: value })} />}
          <When resource={shown} what={kind} rows={6} missing={unknown}>
            {() => (tooEarly ? unknown : graph && <JobGraphPart graph={graph} start={node} chosen={chosen} past={at} />)}
          </When>
        </>
      )}
    </div>
  );
}

function NamespaceChoice({ names }: { names: readonly string[] }): ReactNode {
  const [query, change] = useQuery();
  const value = query.get("namespace") ?? "";
  if (names.length < 2 && !value) return null;
  return (
    <label>
      Namespace
      <select value={value} onChange={(event) => change({ namespace: event.target.value || null })}>
        <option value="">all</option>
        {[...new Set([...names, ...(value ? [value] : [])])].map((name) => (
          <option key={name} value={name}>
            {visible(name)}
          </option>
        ))}
      </select>
    </label>
  );
}

function summary(graph: Graph): string {
  const jobs = graph.nodes.filter((node) => node.kind === "job").length;
  const cut = graph.truncated ? ", most recently changed; select a namespace to see others" : "";
  const datasets = graph.nodes.length - jobs;
  return `${count(jobs)} ${jobs === 1 ? "job" : "jobs"}, ${count(datasets)} ${datasets === 1 ? "dataset" : "datasets"}${cut}`;
}
