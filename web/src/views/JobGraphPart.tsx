/** The graph of jobs and datasets, with details of the selected node. */
import { type KeyboardEvent, type ReactNode, useCallback, useEffect, useMemo, useRef } from "react";
import { Canvas, type CanvasHandle } from "../canvas/Canvas.tsx";
import { NodeCard, cardSize } from "../canvas/NodeCard.tsx";
import { measure } from "../canvas/measure.ts";
import type { Look } from "../canvas/paint.ts";
import { useLayout } from "../canvas/useLayout.ts";
import { neighbour } from "../canvas/walk.ts";
import { cardWidth } from "../model/cards.ts";
import { fold } from "../model/folding.ts";
import { type Graph, type GraphNode, type DatasetNode, type JobNode, around, namespacesOf, writtenNow } from "../model/graph.ts";
import type { Placed, Route } from "../model/layout.ts";
import { shortened, visible } from "../model/names.ts";
import { to } from "../model/route.ts";
import { before, clock, count, duration, freshness } from "../model/time.ts";
import { Icon } from "../ui/Icon.tsx";
import { Name } from "../ui/Name.tsx";
import { StateBadge } from "../ui/StateBadge.tsx";
import { Loading } from "../ui/States.tsx";
import { useNow } from "../ui/now.ts";
import { Facts, Time } from "../ui/parts.tsx";
import { Link, useQuery } from "../ui/router.tsx";

interface PartProps {
  graph: Graph;
  start: string | null;
  chosen: string | null;
  past?: string | null;
}

/** The jobs whose dead letter, late and parents topics are shown as nodes: a list in the URL. */
function useOpenJobs(): [ReadonlySet<string>, (job: string) => void] {
  const [query, change] = useQuery();
  const text = query.get("open");
  const open = useMemo(() => new Set(listOf(text)), [text]);
  const toggle = useCallback(
    (job: string) => {
      const next = open.has(job) ? [...open].filter((each) => each !== job) : [...open, job];
      change({ open: next.length ? JSON.stringify(next) : null });
    },
    [open, change],
  );
  return [open, toggle];
}

function listOf(text: string | null): string[] {
  try {
    const value: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(value) ? value.filter((each): each is string => typeof each === "string") : [];
  } catch {
    return [];
  }
}

export function JobGraphPart({ graph: complete, start, chosen, past = null }: PartProps): ReactNode {
  const present = useNow();
  // States and ages are relative to the time that is shown.
  const now = past ? Date.parse(past) : present;
  const [, change] = useQuery();
  const handle = useRef<CanvasHandle>(null);
  const wanted = useRef<string | null>(null);
  const [open, toggle] = useOpenJobs();
  const graph = useMemo(() => fold(complete, open, new Set([start, chosen].filter((id) => id !== null))), [complete, open, start, chosen]);
  const spaces = useMemo(() => namespacesOf(graph).length > 1, [graph]);
  const width = useMemo(() => cardWidth(graph.nodes.map((node) => node.name), measure), [graph]);
  const boxes = useMemo(() => graph.nodes.map((node) => ({ id: node.id, ...cardSize(node, width, spaces) })), [graph, spaces, width]);
  const layout = useLayout(boxes, graph.edges);
  const byId = useMemo(() => new Map(graph.nodes.map((node) => [node.id, node])), [graph]);
  const path = useMemo(() => (chosen && byId.has(chosen) ? new Set(around(graph, chosen, "both").nodes.map((node) => node.id)) : null), [graph, chosen, byId]);
  const entry = chosen && byId.has(chosen) ? chosen : (start ?? graph.nodes[0]?.id ?? null);

  const choose = useCallback((id: string | null) => change({ chosen: id }), [change]);
  const keys = (event: KeyboardEvent, id: string): void => {
    if (event.key === "Escape") {
      choose(null);
      return;
    }
    const next = layout ? neighbour(layout, id, event.key) : null;
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    wanted.current = next;
    handle.current?.show(next);
    choose(next);
  };
  useEffect(() => {
    // The node may have been rendered only now, because it was not visible.
    if (!wanted.current) return;
    const element = document.querySelector<HTMLElement>(`[data-node="${CSS.escape(wanted.current)}"]`);
    if (element) {
      element.focus({ preventScroll: true });
      wanted.current = null;
    }
  });

  const edgeState = useCallback(
    (route: Route): string | undefined => {
      const [from, end] = [byId.get(route.from), byId.get(route.to)];
      const starts = from?.kind === "job" && end?.kind === "job";
      if (path) return `${starts ? "starts " : ""}${path.has(route.from) && path.has(route.to) ? "lit" : "faded"}`;
      if (starts) return "starts";
      const job = from?.kind === "job" ? from : end;
      return job?.kind === "job" && job.streaming && job.state === "RUNNING" ? "live" : undefined;
    },
    [path, byId],
  );
  const look = useCallback(
    (id: string): Look | null => {
      const node = byId.get(id);
      return node ? { name: visible(node.name), tone: toneOf(node, now), round: node.kind === "job", faded: path !== null && !path.has(id), chosen: id === chosen } : null;
    },
    [byId, now, path, chosen],
  );

  if (!layout) return <Loading what="graph" rows={6} />;
  const card = (placed: Placed): ReactNode => {
    const node = byId.get(placed.id);
    if (!node) return null;
    return (
      <NodeCard
        node={node}
        now={now}
        past={past !== null}
        width={placed.width}
        chosen={placed.id === chosen}
        start={placed.id === start}
        faded={path !== null && !path.has(placed.id)}
        withNamespace={spaces}
        reachable={placed.id === entry}
        open={open.has(placed.id)}
        toggle={() => toggle(placed.id)}
        choose={() => choose(placed.id === chosen ? null : placed.id)}
        keys={(event) => keys(event, placed.id)}
      />
    );
  };
  const found = chosen ? byId.get(chosen) : undefined;
  return (
    <Canvas label={`Graph of ${graph.nodes.length} jobs and datasets. Arrow keys move, plus and minus zoom, 0 shows all.`} layout={layout} focus={start} node={card} edgeState={edgeState} look={look} anchor={entry} pick={(id) => choose(id === chosen ? null : id)} handle={handle}>
      <Legend past={past} truncated={graph.truncated} starts={graph.edges.some((edge) => edge.starts)} />
      {found && <Details node={found} graph={complete} start={start} now={now} past={past} open={open.has(found.id)} toggle={() => toggle(found.id)} close={() => choose(null)} />}
    </Canvas>
  );
}

const TONES: Record<string, string> = { COMPLETED: "ok", RUNNING: "run", FAILED: "bad", ABORTED: "warn", fresh: "ok", ageing: "warn", stale: "bad" };

function toneOf(node: GraphNode, now: number): string {
  const state = node.kind === "job" ? (node.state ?? "") : freshness(node.writtenAt, now);
  return TONES[state] ?? "line-strong";
}

function Legend({ past, truncated, starts }: { past: string | null; truncated: boolean; starts: boolean }): ReactNode {
  return (
    <div className="legend">
      {past && (
        <span>State at {clock(past)}.</span>
      )}
      <StateBadge state="RUNNING" streaming />
      <StateBadge state="COMPLETED" />
      <StateBadge state="FAILED" />
      <span className="fresh" data-fresh="fresh">
        <i aria-hidden="true" />
        written within the hour
      </span>
      <span className="fresh" data-fresh="ageing">
        <i aria-hidden="true" />
        within a day
      </span>
      <span className="fresh" data-fresh="stale">
        <i aria-hidden="true" />
        older
      </span>
      {starts && <span className="starts">starts</span>}
      {truncated && <strong>Not everything is shown: the response was truncated.</strong>}
    </div>
  );
}

interface DetailsProps {
  node: GraphNode;
  graph: Graph;
  start: string | null;
  now: number;
  past: string | null;
  open: boolean;
  toggle: () => void;
  close: () => void;
}

function Details({ node, graph, start, now, past, open, toggle, close }: DetailsProps): ReactNode {
  const readers = graph.edges.filter((edge) => edge.from === node.id && !edge.starts).length;
  const writers = graph.edges.filter((edge) => edge.to === node.id && !edge.starts).length;
  const job = node.kind === "job";
  return (
    <aside className="details" aria-label={visible(`${node.kind} ${node.name.slice(0, 80)}`)}>
      <header>
        <Icon name={node.kind} />
        <h2>
          <Name text={shortened(node.name, 240)} />
        </h2>
        <button type="button" className="plain" aria-label="Close" onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      <Facts
        rows={
          job
            ? [
                ["namespace", <Name key="n" text={node.namespace} />],
                ["last run", <StateBadge key="s" state={node.state} streaming={node.streaming} />],
                ["started", <Time key="b" at={node.startedAt} relative={false} />],
                [
                  node.state === "RUNNING" ? "running for" : "duration",
                  node.startedAt && node.activeAt ? duration((node.state === "RUNNING" ? now : Date.parse(node.activeAt)) - Date.parse(node.startedAt)) : "–",
                ],
                ["rows written", count(node.rows)],
                ["lag", node.lag === null ? "–" : `${count(node.lag)} records`],
                ["datasets", `reads ${writers}, writes ${readers}`],
                ...familyRows(node, graph),
                ...(node.side.length ? [["other topics", node.side.map((topic) => <SideTopic key={topic.id} job={node} topic={topic} />)] as const] : []),
              ]
            : [
                ["namespace", <Name key="n" text={node.namespace} />],
                ["written", writtenNow(node, now) ? `${past ? "then" : "now"}, by a stream` : past && node.writtenAt ? before(node.writtenAt, now) : <Time key="w" at={node.writtenAt} />],
                ["columns", node.fields.length ? String(node.fields.length) : "unknown"],
                ["written by", `${writers} ${writers === 1 ? "job" : "jobs"}`],
                ["read by", `${readers} ${readers === 1 ? "job" : "jobs"}`],
              ]
        }
      />
      <div className="row">
        <Link className="button primary" to={job ? to.job(node.namespace, node.name) : to.dataset(node.namespace, node.name)}>
          Open {node.kind}
        </Link>
        {job && node.runId && (
          <Link className="button" to={to.run(node.runId)}>
            Last run
          </Link>
        )}
        {node.id !== start && (
          <Link className="button" to={to.graph({ node: node.id, at: past })} title="With depth, direction and columns">
            Around it
          </Link>
        )}
        {!job && (
          <Link className="button" to={to.graph({ node: node.id, level: "column" })}>
            Columns
          </Link>
        )}
        {job && node.side.length > 0 && (
          <button type="button" className="button" aria-pressed={open} onClick={toggle}>
            {open ? "Hide" : "Show"} {node.side.length === 1 ? "this topic" : `these ${node.side.length} topics`}
          </button>
        )}
      </div>
    </aside>
  );
}

/** The job that starts a job, and the number of jobs that it starts. */
function familyRows(node: JobNode, graph: Graph): (readonly [string, ReactNode])[] {
  const starts = graph.edges.filter((edge) => edge.starts && edge.from === node.id).length;
  const parent = graph.nodes.find((each) => graph.edges.some((edge) => edge.starts && edge.to === node.id && edge.from === each.id));
  return [
    ...(parent ? [["started by", <Link key="p" to={to.job(parent.namespace, parent.name)}><Name text={shortened(parent.name, 80)} /></Link>] as const] : []),
    ...(starts ? [["starts", `${count(starts)} ${starts === 1 ? "job" : "jobs"}`] as const] : []),
  ];
}

function SideTopic({ job, topic }: { job: JobNode; topic: DatasetNode }): ReactNode {
  const rows = job.rowsOf[topic.id];
  return (
    <span className="block">
      <Link to={to.dataset(topic.namespace, topic.name)}>
        <Name text={shortened(topic.name, 80)} />
      </Link>
      <span className="quiet"> {rows !== undefined ? `${count(rows)} in the last run` : topic.writtenAt ? "" : "no write seen"}</span>
    </span>
  );
}
