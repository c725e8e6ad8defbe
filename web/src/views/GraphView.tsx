/** The graph: of everything, or around a node; of datasets or columns; now or as it was. */
import { type ReactNode, useMemo, useState } from "react";
import type { LineageGraph, Namespaces } from "../api/shapes.ts";
import { type Asked, LIVE, SLOW, useAnswer } from "../api/useAnswer.ts";
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
const DIRECTION_WORDS: Record<Direction, string> = { both: "Both ways", upstream: "Upstream", downstream: "Downstream" };

export default function GraphView(): ReactNode {
  const [query] = useQuery();
  const node = query.get("node");
  return node ? <Around key={node} node={node} /> : <Everything />;
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
  /** What is shown stays until the next answer is there: moving the slider must not flicker. */
  shown: Asked<LineageGraph>;
  graph: Graph | null;
  moments: number[];
}

/** A graph as it is, or as it was at a time; the stops of the slider are always those of today. */
function useGraphAt(path: string, at: string | null, every: number): GraphAt {
  const present = useAnswer<LineageGraph>(path, at ? SLOW : every);
  const past = useAnswer<LineageGraph>(at ? `${path}${path.includes("?") ? "&" : "?"}at=${encodeURIComponent(at)}` : null, 0);
  const asked = at ? past : present;
  const [kept, keep] = useState<{ path: string; data: LineageGraph } | null>(null);
  if (asked.state === "ready" && asked.data !== kept?.data) keep({ path, data: asked.data });
  const shown: Asked<LineageGraph> = asked.state === "loading" && kept?.path === path ? { state: "ready", data: kept.data, late: null, again: () => undefined } : asked;
  const [presentData, shownData] = [present, shown].map((each) => (each.state === "ready" ? each.data : null)) as [LineageGraph | null, LineageGraph | null];
  const moments = useMemo(() => (presentData ? momentsOf(fromLineage(presentData)) : []), [presentData]);
  const graph = useMemo(() => (shownData ? fromLineage(shownData) : null), [shownData]);
  return { shown, graph, moments };
}

/** Without a beginning: all jobs that there are, or those of a namespace. */
function Everything(): ReactNode {
  const { namespace, chosen, at } = useChoices();
  const [, change] = useQuery();
  const { shown, graph, moments } = useGraphAt(namespace ? `/graph?namespace=${encodeURIComponent(namespace)}` : "/graph", at, SLOW);
  const spaces = useAnswer<Namespaces>("/namespaces?limit=1000", SLOW);
  const names = spaces.state === "ready" ? spaces.data.namespaces.map((each) => each.name) : [];
  const some = graph !== null && graph.nodes.length > 0;
  return (
    <div className="graphview">
      <div className="bar">
        <h1>Graph</h1>
        <NamespaceChoice names={names} />
        {some && (
          <p className="quiet push">
            {summary(graph)}. Choose a node, then <b>Around it</b>: depth, direction, columns.
          </p>
        )}
      </div>
      {moments.length > 1 && <TimeSlider moments={moments} at={at} choose={(value) => change({ at: value })} />}
      <When asked={shown} what="graph" rows={6}>
        {() => (some ? <JobGraphPart graph={graph} start={null} chosen={chosen} past={at} /> : <NothingYet namespace={namespace} at={at} />)}
      </When>
    </div>
  );
}

function NothingYet({ namespace, at }: { namespace: string; at: string | null }): ReactNode {
  if (at) {
    return (
      <Notice icon="clock" title="Nothing was known then">
        <p>Events that came later tell of later times. Move the slider to the right.</p>
      </Notice>
    );
  }
  if (namespace) {
    return (
      <Notice icon="graph" title="No job belongs to this namespace, or uses what is in it">
        <p>
          <Link to={to.graph()}>Show the graph of all namespaces</Link>
        </p>
      </Notice>
    );
  }
  return (
    <Notice icon="graph" title="Nothing is known yet">
      <p>
        The graph grows out of OpenLineage events. Let jobs send theirs here with <code>MARQUEZ_URL</code>, or run <code>make demo</code>.
      </p>
    </Notice>
  );
}

function Around({ node }: { node: string }): ReactNode {
  const { direction, depth, namespace, chosen, at } = useChoices();
  const [query, change] = useQuery();
  const level = query.get("level") === "column" ? "column" : "dataset";
  const { shown, graph: whole, moments } = useGraphAt(`/lineage?nodeId=${encodeURIComponent(node)}&depth=${depth}`, at, LIVE);
  const graph = useMemo(() => {
    if (!whole) return null;
    const near = around(whole, node, direction, depth);
    return namespace ? only(near, (each) => each.namespace === namespace || each.id === node) : near;
  }, [whole, node, direction, depth, namespace]);
  const kind = node.slice(0, node.indexOf(":"));
  // A name may hold colons: the answer knows where it begins.
  const start = whole?.nodes.find((each) => each.id === node);
  const name = start?.name ?? node.slice(node.lastIndexOf(":") + 1);
  // The service shows a node that it knows alone, also before anything was told of it.
  const tooEarly = at !== null && start?.createdAt !== undefined && start.createdAt !== null && Date.parse(start.createdAt) > Date.parse(at);
  const unknown = (
    <Notice icon="search" title={at ? "It was not known then" : `There is no such ${kind}`}>
      <p>
        <Name text={node} /> {at ? "appeared later." : "has sent no event."}
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
        {level === "dataset" && whole && <NamespaceChoice names={namespacesOf(whole)} />}
      </div>
      {level === "column" ? (
        <ColumnGraphPart node={node} depth={depth} direction={direction} />
      ) : (
        <>
          {moments.length > 1 && <TimeSlider moments={moments} at={at} choose={(value) => change({ at: value })} />}
          <When asked={shown} what={kind} rows={6} missing={unknown}>
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
  const cut = graph.truncated ? ", the last changed; choose a namespace to see others" : "";
  return `${count(jobs)} jobs, ${count(graph.nodes.length - jobs)} datasets${cut}`;
}
