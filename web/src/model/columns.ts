/** Columns of datasets, and their lineage. */
import type { LineageGraph } from "../api/types.ts";

export interface Column {
  id: string;
  dataset: string;
  name: string;
  type: string;
}

export interface ColumnEdge {
  from: string;
  to: string;
  how: string;
}

export interface ColumnDataset {
  id: string;
  namespace: string;
  name: string;
  columns: Column[];
}

export interface ColumnGraph {
  datasets: ColumnDataset[];
  edges: ColumnEdge[];
  truncated: boolean;
}

interface FieldData {
  namespace: string;
  dataset: string;
  field: string;
  fieldType: string;
  inputFields: {
    namespace: string;
    dataset: string;
    field: string;
    transformationType: string | null;
    transformationDescription: string | null;
  }[];
}

const columnId = (at: { namespace: string; dataset: string; field: string }): string =>
  JSON.stringify([at.namespace, at.dataset, at.field]);

/** From the response of `GET /column-lineage`. */
export function fromColumnLineage(answer: LineageGraph): ColumnGraph {
  const datasets = new Map<string, ColumnDataset>();
  const edges: ColumnEdge[] = [];
  for (const node of answer.graph) {
    const data = node.data as unknown as FieldData;
    const id = `dataset:${data.namespace}:${data.dataset}`;
    const dataset = datasets.get(id) ?? { id, namespace: data.namespace, name: data.dataset, columns: [] };
    datasets.set(id, dataset);
    dataset.columns.push({ id: columnId(data), dataset: id, name: data.field, type: data.fieldType });
    for (const input of data.inputFields ?? []) {
      const how = input.transformationDescription || input.transformationType || "";
      edges.push({ from: columnId(input), to: columnId(data), how });
    }
  }
  return { datasets: [...datasets.values()], edges, truncated: answer.truncated === true };
}

/** All columns upstream and downstream of a column, with the edges between them. */
export function pathThrough(graph: ColumnGraph, column: string): { columns: Set<string>; edges: Set<ColumnEdge> } {
  const columns = new Set([column]);
  const edges = new Set<ColumnEdge>();
  for (const [near, far] of [["to", "from"], ["from", "to"]] as const) {
    const waiting = [column];
    const seen = new Set(waiting);
    for (let head = 0; head < waiting.length; head++) {
      for (const edge of graph.edges) {
        if (edge[near] !== waiting[head]) continue;
        edges.add(edge);
        columns.add(edge[far]);
        if (!seen.has(edge[far])) {
          seen.add(edge[far]);
          waiting.push(edge[far]);
        }
      }
    }
  }
  return { columns, edges };
}
