/** Every view has a URL; this module parses and creates URLs. */
import { type Address, addressText, parseAddress } from "./address.ts";

export type Route =
  | { view: "dashboard" }
  | { view: "graph" }
  | { view: "record"; address: Address | null; text: string }
  | { view: "jobs" }
  | { view: "job"; namespace: string; name: string }
  | { view: "datasets" }
  | { view: "dataset"; namespace: string; name: string }
  | { view: "run"; id: string }
  | { view: "alerts" }
  | { view: "unknown"; path: string };

const decoded = (part: string): string => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
};

export function readPath(path: string): Route {
  const parts = path.split("/").filter(Boolean).map(decoded);
  const [first, second, third] = parts;
  if (!first) return { view: "dashboard" };
  if (first === "graph" && parts.length === 1) return { view: "graph" };
  if (first === "alerts" && parts.length === 1) return { view: "alerts" };
  if (first === "record") {
    const text = parts.slice(1).join("/");
    return { view: "record", address: parseAddress(text), text };
  }
  if (first === "runs" && second && parts.length === 2) return { view: "run", id: second };
  if (first === "jobs" || first === "datasets") {
    if (parts.length === 1) return { view: first };
    if (second && third && parts.length === 3) {
      return { view: first === "jobs" ? "job" : "dataset", namespace: second, name: third };
    }
  }
  return { view: "unknown", path };
}

type Query = Record<string, string | number | null | undefined>;

const withQuery = (path: string, query: Query = {}): string => {
  const present = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(present.map(([key, value]) => [key, String(value)])).toString();
  return text ? `${path}?${text}` : path;
};

const part = encodeURIComponent;

export const to = {
  dashboard: (): string => "/",
  graph: (query: Query = {}): string => withQuery("/graph", query),
  record: (at: { topic: string; partition: number | string; offset: number | string } | null, query: Query = {}): string =>
    withQuery(at ? `/record/${addressText(at)}` : "/record", query),
  jobs: (query: Query = {}): string => withQuery("/jobs", query),
  job: (namespace: string, name: string, query: Query = {}): string =>
    withQuery(`/jobs/${part(namespace)}/${part(name)}`, query),
  datasets: (query: Query = {}): string => withQuery("/datasets", query),
  dataset: (namespace: string, name: string, query: Query = {}): string =>
    withQuery(`/datasets/${part(namespace)}/${part(name)}`, query),
  run: (id: string, query: Query = {}): string => withQuery(`/runs/${part(id)}`, query),
  alerts: (): string => "/alerts",
};
