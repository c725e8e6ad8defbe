/** The graph of jobs and datasets, from the responses of the service. */
import type { LineageGraph, Run } from "../api/types.ts";
import { nodeId } from "./names.ts";

export type RunState = "NEW" | "RUNNING" | "COMPLETED" | "FAILED" | "ABORTED" | "OTHER";
export type Direction = "both" | "upstream" | "downstream";
export const DIRECTIONS: readonly Direction[] = ["both", "upstream", "downstream"];

interface Common {
  id: string;
  namespace: string;
  name: string;
  createdAt: string | null;
}

export interface JobNode extends Common {
  kind: "job";
  state: RunState | null;
  streaming: boolean;
  runId: string | null;
  /** When its last run ended or, while it runs, emitted its last event. */
  activeAt: string | null;
  startedAt: string | null;
  endedAt: string | null;
  rows: number | null;
  lag: number | null;
  /** Rows that the last run wrote to each output, by the id of the dataset, if it reports them. */
  rowsOf: Record<string, number>;
  /** Its dead letter, late and parents topics, see `fold`. */
  side: DatasetNode[];
}

export interface DatasetNode extends Common {
  kind: "dataset";
  /** The time of the last write, independent of the state of its writer. */
  writtenAt: string | null;
  /** Columns of its schema, if the response has them. */
  fields: string[];
  /** A running stream writes to it: the last event of the stream reports a write. */
  live: boolean;
}

export type GraphNode = JobNode | DatasetNode;

export interface Edge {
  from: string;
  to: string;
  /** The job `from` starts the job `to`; all other edges connect a job and a dataset. */
  starts?: true;
}

export interface Graph {
  nodes: GraphNode[];
  edges: Edge[];
  truncated: boolean;
}

export const EMPTY: Graph = { nodes: [], edges: [], truncated: false };

type Loose = Record<string, unknown>;
const text = (value: unknown): string | null => (typeof value === "string" ? value : null);
const number = (value: unknown): number | null => (typeof value === "number" ? value : null);

export function facet(facets: Loose | undefined, name: string): Loose {
  const found = facets?.[name];
  return typeof found === "object" && found !== null ? (found as Loose) : {};
}

/** Rows that a run has written: from its progress facet, or from the statistics of its outputs. */
export function rowsWritten(run: Run): number | null {
  const reported = number(facet(run.facets, "headwater_progress")["rowsOut"]);
  if (reported !== null) return reported;
  const counts = (run.outputDatasetVersions ?? []).map((out) =>
    number(facet(out.facets, "outputStatistics")["rowCount"]),
  );
  const known = counts.filter((value) => value !== null);
  return known.length ? known.reduce((a, b) => a + b, 0) : null;
}

function rowsByOutput(run: Run): Record<string, number> {
  const rows: Record<string, number> = {};
  for (const { datasetVersionId: of, facets } of run.outputDatasetVersions ?? []) {
    const amount = number(facet(facets, "outputStatistics")["rowCount"]);
    if (amount !== null) rows[nodeId("dataset", of.namespace, of.name)] = amount;
  }
  return rows;
}

function jobNode(data: Loose, id: string): JobNode {
  const run = (data["latestRun"] ?? null) as Run | null;
  return {
    id,
    kind: "job",
    namespace: text(data["namespace"]) ?? "",
    name: text(data["name"]) ?? "",
    createdAt: text(data["createdAt"]),
    state: (run?.state as RunState | undefined) ?? null,
    streaming: data["type"] === "STREAM",
    runId: run?.id ?? null,
    activeAt: run ? (run.endedAt ?? run.updatedAt) : null,
    startedAt: run?.startedAt ?? null,
    endedAt: run?.endedAt ?? null,
    rows: run ? rowsWritten(run) : null,
    lag: run ? number(facet(run.facets, "headwater_progress")["lag"]) : null,
    rowsOf: run ? rowsByOutput(run) : {},
    side: [],
  };
}

/** From the response of `GET /lineage` or `GET /graph`. */
export function fromLineage(answer: LineageGraph): Graph {
  const nodes: GraphNode[] = [];
  const edges: Edge[] = [];
  for (const node of answer.graph) {
    const data = node.data as Loose;
    if (node.type === "JOB") {
      nodes.push(jobNode(data, node.id));
      const children = (data["children"] ?? []) as { namespace: string; name: string }[];
      for (const child of children) edges.push({ from: node.id, to: nodeId("job", child.namespace, child.name), starts: true });
    } else {
      const fields = (data["fields"] ?? []) as { name: string }[];
      nodes.push({
        id: node.id,
        kind: "dataset",
        namespace: text(data["namespace"]) ?? "",
        name: text(data["name"]) ?? "",
        createdAt: text(data["createdAt"]),
        writtenAt: text(data["lastWrittenAt"]),
        fields: fields.map((field) => field.name),
        live: false,
      });
    }
    for (const edge of node.outEdges) edges.push({ from: edge.origin, to: edge.destination });
  }
  return withStreams({ nodes, edges, truncated: answer.truncated === true });
}

/** Marks datasets that a running stream writes to as live. A stream also names outputs, such as its dead letter topic, to which it does not write. */
function withStreams(graph: Graph): Graph {
  const byId = new Map(graph.nodes.map((node) => [node.id, node]));
  for (const edge of graph.edges) {
    const [job, dataset] = [byId.get(edge.from), byId.get(edge.to)];
    if (job?.kind !== "job" || dataset?.kind !== "dataset" || !job.streaming || job.state !== "RUNNING") continue;
    if (job.activeAt && dataset.writtenAt && Date.parse(dataset.writtenAt) >= Date.parse(job.activeAt)) dataset.live = true;
  }
  return graph;
}

// A stream sends an event at least every minute.
const NOW_MS = 5 * 60_000;

/** Whether a stream has written to a dataset in the last minutes before `now`. A stream that sends no events may have been killed. */
export function writtenNow(node: DatasetNode, now: number): boolean {
  return node.live && node.writtenAt !== null && now - Date.parse(node.writtenAt) < NOW_MS;
}

/** The job and the jobs that it starts, directly or indirectly. */
function familyOf(graph: Graph, start: string): Set<string> {
  const family = new Set([start]);
  for (const member of family) {
    for (const edge of graph.edges) if (edge.starts && edge.from === member) family.add(edge.to);
  }
  return family;
}

/** The nodes up to `depth` jobs upstream and downstream of a node; of a job that starts others, also of these. */
export function around(graph: Graph, start: string, direction: Direction, depth = Infinity): Graph {
  const kinds = new Map(graph.nodes.map((node) => [node.id, node.kind]));
  const family = [...familyOf(graph, start)].filter((id) => kinds.has(id));
  const kept = new Set<string>(family);
  const ways: ("from" | "to")[] = [];
  if (direction !== "upstream") ways.push("from");
  if (direction !== "downstream") ways.push("to");
  for (const way of ways) {
    const next = new Map<string, string[]>();
    const other = way === "from" ? "to" : "from";
    for (const edge of graph.edges) if (!edge.starts) next.set(edge[way], [...(next.get(edge[way]) ?? []), edge[other]]);
    const hops = new Map(family.map((id) => [id, 0]));
    const waiting = [...family];
    for (let head = 0; head < waiting.length; head++) {
      const at = waiting[head] ?? "";
      const done = hops.get(at) ?? 0;
      for (const following of next.get(at) ?? []) {
        const hop = done + (kinds.get(following) === "job" ? 1 : 0);
        if (hop > depth || hops.has(following)) continue;
        hops.set(following, hop);
        kept.add(following);
        waiting.push(following);
      }
    }
  }
  return only(graph, (node) => kept.has(node.id));
}

export function only(graph: Graph, keep: (node: GraphNode) => boolean): Graph {
  const nodes = graph.nodes.filter(keep);
  const ids = new Set(nodes.map((node) => node.id));
  return { ...graph, nodes, edges: graph.edges.filter((edge) => ids.has(edge.from) && ids.has(edge.to)) };
}

export function namespacesOf(graph: Graph): string[] {
  return [...new Set(graph.nodes.map((node) => node.namespace))].toSorted();
}

/** Milliseconds, rounded up: at a stop of the slider its node must be visible. */
function momentOf(at: string): number {
  return Date.parse(at) + (/\.\d{3}\d*[1-9]/.test(at) ? 1 : 0);
}

/** The times at which something in the graph appeared, started or ended: the stops of the time slider. */
export function momentsOf(graph: Graph): number[] {
  const times = graph.nodes.flatMap((node) => {
    const events = node.kind === "job" ? [node.createdAt, node.startedAt, node.endedAt] : [node.createdAt, node.live ? null : node.writtenAt];
    return events.map((at) => (at ? momentOf(at) : Number.NaN));
  });
  return [...new Set(times.filter((at) => !Number.isNaN(at)))].toSorted((a, b) => a - b);
}
