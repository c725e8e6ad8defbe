/** Columns of datasets and their lineage; picking one highlights its path. */
import { type ReactNode, useMemo } from "react";
import type { LineageGraph } from "../api/types.ts";
import { SLOW, useResource } from "../api/useResource.ts";
import { Canvas } from "../canvas/Canvas.tsx";
import { useLayout } from "../canvas/useLayout.ts";
import { type ColumnDataset, type ColumnGraph, fromColumnLineage, pathThrough } from "../model/columns.ts";
import type { Direction } from "../model/graph.ts";
import { pathOf } from "../model/layout.ts";
import { visible } from "../model/names.ts";
import { to } from "../model/route.ts";
import { Icon } from "../ui/Icon.tsx";
import { Name } from "../ui/Name.tsx";
import { Loading, Notice, When } from "../ui/States.tsx";
import { Link, useQuery } from "../ui/router.tsx";

const WIDTH = 240;
const HEAD = 36;
const ROW = 24;

export function ColumnGraphPart({ node, depth, direction }: { node: string; depth: number; direction: Direction }): ReactNode {
  const down = direction !== "upstream";
  const resource = useResource<LineageGraph>(`/column-lineage?nodeId=${encodeURIComponent(node)}&depth=${depth}&withDownstream=${down}`, SLOW);
  const none = (
    <Notice icon="dataset" title="No column lineage">
      <p>
        Jobs report it in the facet <code>columnLineage</code> of their outputs. Select a dataset that such a job writes.
      </p>
    </Notice>
  );
  return (
    <When resource={resource} what="column lineage" rows={6} missing={none}>
      {(data) => (data.graph.length ? <Columns answer={data} start={node} /> : none)}
    </When>
  );
}

function Columns({ answer, start }: { answer: LineageGraph; start: string }): ReactNode {
  const [query, change] = useQuery();
  const graph = useMemo(() => fromColumnLineage(answer), [answer]);
  const picked = query.get("column");
  const path = useMemo(() => (picked ? pathThrough(graph, picked) : null), [graph, picked]);
  const boxes = useMemo(() => graph.datasets.map((each) => ({ id: each.id, width: WIDTH, height: HEAD + each.columns.length * ROW + 6 })), [graph]);
  const links = useMemo(() => datasetLinks(graph), [graph]);
  const layout = useLayout(boxes, links);
  // Lines connect columns, so the routes between datasets are removed.
  const drawn = useMemo(() => (layout ? { ...layout, routes: [] } : null), [layout]);
  if (!layout || !drawn) return <Loading what="columns" rows={6} />;
  const places = new Map(layout.nodes.map((each) => [each.id, each]));
  const where = new Map(graph.datasets.flatMap((dataset) => dataset.columns.map((column, at) => [column.id, { dataset: dataset.id, y: HEAD + at * ROW + ROW / 2 }] as const)));
  const byId = new Map(graph.datasets.map((each) => [each.id, each]));
  const lines = graph.edges.flatMap((edge) => {
    const [from, end] = [where.get(edge.from), where.get(edge.to)];
    const [a, b] = [places.get(from?.dataset ?? ""), places.get(end?.dataset ?? "")];
    if (!from || !end || !a || !b) return [];
    const d = pathOf([[a.x + a.width, a.y + from.y], [b.x, b.y + end.y]]);
    return [{ edge, d, state: path ? (path.edges.has(edge) ? "lit" : "faded") : undefined }];
  });
  return (
    <Canvas
      label={`Columns of ${graph.datasets.length} datasets. Pick one to highlight its path.`}
      layout={drawn}
      focus={start}
      under={
        <svg className="lines columns" width={1} height={1} aria-hidden="true">
          {lines.map(({ edge, d, state }) => (
            <path key={`${edge.from}\n${edge.to}`} d={d} data-state={state} />
          ))}
        </svg>
      }
      node={(placed) => {
        const dataset = byId.get(placed.id);
        if (!dataset) return null;
        return (
          <DatasetCard dataset={dataset} picked={picked} lit={path?.columns ?? null} pick={(id) => change({ column: id === picked ? null : id })} start={placed.id === start} />
        );
      }}
    >
      <PathNote graph={graph} picked={picked} size={path?.columns.size ?? 0} />
    </Canvas>
  );
}

function DatasetCard({ dataset, picked, lit, pick, start }: { dataset: ColumnDataset; picked: string | null; lit: Set<string> | null; pick: (id: string) => void; start: boolean }): ReactNode {
  return (
    <div className="columncard" data-start={start ? "" : undefined}>
      <Link to={to.dataset(dataset.namespace, dataset.name)} className="title">
        <Icon name="dataset" />
        <Name text={dataset.name} cut />
      </Link>
      <ul aria-label={visible(`Columns of ${dataset.name.slice(0, 80)}`)}>
        {dataset.columns.map((column) => (
          <li key={column.id}>
            <button type="button" aria-pressed={column.id === picked} data-lit={lit ? (lit.has(column.id) ? "yes" : "no") : undefined} onClick={() => pick(column.id)}>
              <Name text={column.name} cut />
              <Name text={column.type} cut className="quiet" />
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

function PathNote({ graph, picked, size }: { graph: ColumnGraph; picked: string | null; size: number }): ReactNode {
  const into = picked ? graph.edges.filter((edge) => edge.to === picked) : [];
  const names = new Map(graph.datasets.flatMap((dataset) => dataset.columns.map((column) => [column.id, column.name] as const)));
  return (
    <div className="legend" role="status">
      {picked && names.has(picked) ? (
        <span>
          <Name text={names.get(picked) ?? ""} className="strong" />: {size} columns on its path
          {into.map((edge) => (
            <span key={edge.from}>
              ; from <Name text={names.get(edge.from) ?? ""} /> {edge.how && <em>{edge.how}</em>}
            </span>
          ))}
        </span>
      ) : (
        <span>Pick a column to highlight its path.</span>
      )}
      {graph.truncated && <strong>Not everything is shown: the response was truncated.</strong>}
    </div>
  );
}

function datasetLinks(graph: ColumnGraph): { from: string; to: string }[] {
  const dataset = new Map(graph.datasets.flatMap((each) => each.columns.map((column) => [column.id, each.id] as const)));
  const seen = new Map<string, { from: string; to: string }>();
  for (const edge of graph.edges) {
    const [from, end] = [dataset.get(edge.from), dataset.get(edge.to)];
    if (from && end && from !== end) seen.set(`${from}\n${end}`, { from, to: end });
  }
  return [...seen.values()];
}
