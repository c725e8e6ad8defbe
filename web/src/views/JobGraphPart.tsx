/** The graph of jobs and datasets, with details of the selected node. */
import { type KeyboardEvent, type ReactNode, useCallback, useEffect, useMemo, useRef } from "react";
import { Canvas, type CanvasHandle } from "../canvas/Canvas.tsx";
import { NodeCard, cardSize } from "../canvas/NodeCard.tsx";
import { measure } from "../canvas/measure.ts";
import type { Look } from "../canvas/paint.ts";
import { useLayout } from "../canvas/useLayout.ts";
import { neighbour } from "../canvas/walk.ts";
import { cardWidth } from "../model/cards.ts";
import { type Graph, type GraphNode, around, namespacesOf } from "../model/graph.ts";
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

export function JobGraphPart({ graph, start, chosen, past = null }: PartProps): ReactNode {
  const present = useNow();
  // States and ages are relative to the time that is shown.
  const now = past ? Date.parse(past) : present;
  const [, change] = useQuery();
  const handle = useRef<CanvasHandle>(null);
  const wanted = useRef<string | null>(null);
  const spaces = useMemo(() => namespacesOf(graph).length > 1, [graph]);
  const width = useMemo(() => cardWidth(graph.nodes.map((node) => node.name), measure), [graph]);
  const boxes = useMemo(() => graph.nodes.map((node) => ({ id: node.id, ...cardSize(width, spaces) })), [graph, spaces, width]);
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
      if (path) return path.has(route.from) && path.has(route.to) ? "lit" : "faded";
      const job = [byId.get(route.from), byId.get(route.to)].find((node) => node?.kind === "job");
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
        choose={() => choose(placed.id === chosen ? null : placed.id)}
        keys={(event) => keys(event, placed.id)}
      />
    );
  };
  const found = chosen ? byId.get(chosen) : undefined;
  return (
    <Canvas label={`Graph of ${graph.nodes.length} jobs and datasets. Arrow keys move, plus and minus zoom, 0 shows all.`} layout={layout} focus={start} node={card} edgeState={edgeState} look={look} anchor={entry} pick={(id) => choose(id === chosen ? null : id)} handle={handle}>
      <Legend past={past} truncated={graph.truncated} />
      {found && <Details node={found} graph={graph} start={start} now={now} past={past} close={() => choose(null)} />}
    </Canvas>
  );
}

const TONES: Record<string, string> = { COMPLETED: "ok", RUNNING: "run", FAILED: "bad", ABORTED: "warn", fresh: "ok", ageing: "warn", stale: "bad" };

function toneOf(node: GraphNode, now: number): string {
  const state = node.kind === "job" ? (node.state ?? "") : node.live ? "fresh" : freshness(node.writtenAt, now);
  return TONES[state] ?? "line-strong";
}

function Legend({ past, truncated }: { past: string | null; truncated: boolean }): ReactNode {
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
  close: () => void;
}

function Details({ node, graph, start, now, past, close }: DetailsProps): ReactNode {
  const readers = graph.edges.filter((edge) => edge.from === node.id).length;
  const writers = graph.edges.filter((edge) => edge.to === node.id).length;
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
              ]
            : [
                ["namespace", <Name key="n" text={node.namespace} />],
                ["written", node.live ? `${past ? "then" : "now"}, by a stream` : past && node.writtenAt ? before(node.writtenAt, now) : <Time key="w" at={node.writtenAt} />],
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
      </div>
    </aside>
  );
}
