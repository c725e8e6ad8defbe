/** Ancestry and impact of a record: nested responses as a graph in which each record occurs once. */
import { addressText } from "./address.ts";

/** Records of a partition that contain parents; which of them are parents is not known. */
export interface RangeJson {
  topic: string;
  partition: number;
  first: number;
  last: number;
  records: number;
}

export interface RecordJson {
  topic: string;
  partition: number;
  offset: number;
  job_name: string | { base64: string } | null;
  job_version: string | { base64: string } | null;
  batch_version: number | null;
  run_id: string | null;
  record_id: string | null;
  timestamp: number | null;
  state: string;
  reason: string | null;
  unlisted: number;
  ranges: RangeJson[];
  more_parents: boolean;
  /** In an impact: it may be made from the record, but not for certain. */
  within?: boolean;
  truncated: boolean;
  value?: string | { base64: string } | null;
  parents?: RecordJson[];
  children?: RecordJson[];
}

export interface RecordNode {
  id: string;
  record: RecordJson;
}

export interface RecordGraph {
  nodes: RecordNode[];
  edges: { from: string; to: string }[];
  /** Records whose parents or children were not followed. */
  cut: number;
}

/** Edges point from parent to child for both ancestry and impact. */
export function recordGraph(root: RecordJson, below: "parents" | "children"): RecordGraph {
  const nodes = new Map<string, RecordNode>();
  const edges = new Map<string, { from: string; to: string }>();
  let cut = 0;
  const waiting: RecordJson[] = [root];
  for (let head = 0; head < waiting.length; head++) {
    const record = waiting[head];
    if (!record) continue;
    const id = addressText(record);
    const known = nodes.get(id);
    const lower = record[below] ?? [];
    // A cycle contains a second object without children for the same record: the full one is kept.
    if (!known || (lower.length && !known.record[below]?.length)) nodes.set(id, { id, record });
    if (!known && (record.truncated || record.unlisted > 0 || (below === "parents" && isInexact(record)))) cut++;
    for (const other of lower) {
      const edge =
        below === "parents" ? { from: addressText(other), to: id } : { from: id, to: addressText(other) };
      edges.set(`${edge.from} ${edge.to}`, edge);
      waiting.push(other);
    }
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()], cut };
}

const isInexact = (record: RecordJson): boolean => record.ranges.length > 0 || record.more_parents;

/** Such as `visits/0@3..17 (15 records)`. */
export function rangeText(range: RangeJson): string {
  const records = range.records === 1 ? "1 record" : `${range.records} records`;
  return `${range.topic}/${range.partition}@${range.first}..${range.last} (${records})`;
}

/** Values that are not text are shown as bytes, in base64. */
export function valueText(value: RecordJson["value"]): string {
  if (value === undefined) return "";
  if (value === null) return "null";
  return typeof value === "string" ? value : `${byteCount(value.base64)} bytes, base64 ${value.base64}`;
}

export function plainText(value: string | { base64: string } | null): string {
  if (value === null) return "";
  return typeof value === "string" ? value : `base64 ${value.base64}`;
}

const byteCount = (base64: string): number => Math.floor((base64.replace(/=+$/, "").length * 3) / 4);

/** The states of a record, in words. */
export const RECORD_STATES: Record<string, string> = {
  found: "in Kafka",
  archived: "from the archive",
  expired: "gone from Kafka",
  unverified: "not verified",
};
