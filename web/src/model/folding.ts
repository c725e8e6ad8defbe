/** Topics that belong to a job's output are folded into the card of the job: most of them stay empty. */
import type { Graph, GraphNode, JobNode } from "./graph.ts";
import { nodeId } from "./names.ts";
import { count } from "./time.ts";

const DEAD_LETTER = "-dead-letter";
const LATE = "-late";
const SUFFIXES = [DEAD_LETTER, LATE, "-parents"];

/** `visits` for `visits-dead-letter`; null for other names. */
function outputOf(name: string): string | null {
  const suffix = SUFFIXES.find((each) => name.endsWith(each) && name.length > each.length);
  return suffix ? name.slice(0, -suffix.length) : null;
}

/**
 * Removes the dead letter, late and parents topics of jobs, and lists them in `side` of the job.
 *
 * A topic is such a topic if each of its writers also writes the output that it is named after, and
 * no job reads it: a topic with a reader is part of the pipeline.
 *
 * @param open jobs whose topics stay nodes.
 * @param keep nodes that stay.
 */
export function fold(graph: Graph, open: ReadonlySet<string>, keep: ReadonlySet<string>): Graph {
  const writers = new Map<string, Set<string>>();
  const read = new Set<string>();
  const jobs = new Map<string, JobNode>();
  for (const node of graph.nodes) if (node.kind === "job") jobs.set(node.id, { ...node, side: [] });
  for (const edge of graph.edges) {
    if (edge.starts) continue;
    if (jobs.has(edge.from)) writers.set(edge.to, (writers.get(edge.to) ?? new Set()).add(edge.from));
    else read.add(edge.from);
  }
  const hidden = new Set<string>();
  for (const node of graph.nodes) {
    const output = node.kind === "dataset" ? outputOf(node.name) : null;
    const by = writers.get(node.id);
    if (node.kind !== "dataset" || output === null || !by || read.has(node.id)) continue;
    const main = writers.get(nodeId("dataset", node.namespace, output));
    if (![...by].every((job) => main?.has(job))) continue;
    for (const job of by) jobs.get(job)?.side.push(node);
    if (!keep.has(node.id) && ![...by].some((job) => open.has(job))) hidden.add(node.id);
  }
  return {
    ...graph,
    nodes: graph.nodes.filter((node) => !hidden.has(node.id)).map((node): GraphNode => jobs.get(node.id) ?? node),
    edges: graph.edges.filter((edge) => !hidden.has(edge.to)),
  };
}

/** `3 topics`, and what the last run wrote to them: `3 topics, 2 dead letters`. */
export function sideText(job: JobNode): string {
  const rows = (suffix: string): number => job.side.filter((topic) => topic.name.endsWith(suffix)).reduce((sum, topic) => sum + (job.rowsOf[topic.id] ?? 0), 0);
  const [dead, late] = [rows(DEAD_LETTER), rows(LATE)];
  const parts = [`${job.side.length} ${job.side.length === 1 ? "topic" : "topics"}`];
  if (dead) parts.push(`${count(dead)} dead ${dead === 1 ? "letter" : "letters"}`);
  if (late) parts.push(`${count(late)} late`);
  return parts.join(", ");
}
