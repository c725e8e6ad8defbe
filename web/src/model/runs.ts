/** Facets of runs: errors, spans of time, versions. */
import type { JobVersion, Run } from "../api/types.ts";
import { facet } from "./graph.ts";

export interface RunError {
  message: string;
  language: string | null;
  stack: string | null;
}

/** The facet `errorMessage`, if a run has one. */
export function errorOf(run: Run): RunError | null {
  const error = facet(run.facets, "errorMessage");
  if (typeof error["message"] !== "string") return null;
  const textOf = (name: string): string | null => (typeof error[name] === "string" ? (error[name] as string) : null);
  return { message: error["message"], language: textOf("programmingLanguage"), stack: textOf("stackTrace") };
}

export interface Span {
  run: Run;
  from: number;
  to: number;
}

/** Runs as spans of time, oldest first; a running one ends now. */
export function spansOf(runs: readonly Run[], now: number): Span[] {
  const spans = runs.flatMap((run) => {
    const from = Date.parse(run.startedAt ?? run.createdAt);
    const to = run.endedAt ? Date.parse(run.endedAt) : run.state === "RUNNING" ? now : Date.parse(run.updatedAt);
    return Number.isNaN(from) ? [] : [{ run, from, to: Math.max(to, from) }];
  });
  return spans.toSorted((a, b) => a.from - b.from);
}

/** The first lane in which a span overlaps no other: parallel runs get different lanes. */
export function lanesOf(spans: readonly Span[]): number[] {
  const ends: number[] = [];
  return spans.map((span) => {
    let lane = ends.findIndex((end) => end <= span.from);
    if (lane < 0) lane = ends.length;
    ends[lane] = span.to;
    return lane;
  });
}

export interface Difference {
  what: string;
  left: string;
  right: string;
  same: boolean;
}

/** Compares two versions of a job, property by property. */
export function compareVersions(left: JobVersion, right: JobVersion): Difference[] {
  const names = (of: { namespace: string; name: string }[]): string =>
    of.map((each) => `${each.namespace} / ${each.name}`).toSorted().join("\n") || "none";
  const rows: [string, (version: JobVersion) => string][] = [
    ["first run", (version) => version.createdAt],
    ["location", (version) => version.location ?? "unknown"],
    ["reads", (version) => names(version.inputs)],
    ["writes", (version) => names(version.outputs)],
    ["last run", (version) => version.latestRun?.id ?? "none"],
    ["state of last run", (version) => version.latestRun?.state ?? "none"],
  ];
  const facets = [...new Set([left, right].flatMap((version) => Object.keys(version.latestRun?.facets ?? {})))];
  for (const name of facets.toSorted()) {
    rows.push([
      name,
      (version) => {
        const found = facet(version.latestRun?.facets, name);
        const properties = Object.fromEntries(Object.entries(found).filter(([key]) => !key.startsWith("_")));
        return Object.keys(properties).length ? JSON.stringify(properties, null, 2) : "none";
      },
    ]);
  }
  return rows.map(([what, of]) => {
    const [a, b] = [of(left), of(right)];
    return { what, left: a, right: b, same: a === b };
  });
}

/** The columns that were added and removed between two schemas. */
export function schemaChange(older: readonly { name: string }[], newer: readonly { name: string }[]): { added: string[]; removed: string[] } {
  const before = new Set(older.map((field) => field.name));
  const after = new Set(newer.map((field) => field.name));
  return {
    added: [...after].filter((name) => !before.has(name)),
    removed: [...before].filter((name) => !after.has(name)),
  };
}
