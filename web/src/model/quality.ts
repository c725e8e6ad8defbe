/** Test results and metrics of datasets, from the facets of runs and versions. */
import type { DatasetQuality, DatasetVersion, Run } from "../api/types.ts";
import { facet } from "./graph.ts";
import { count } from "./time.ts";

type Loose = Record<string, unknown>;

export interface TestResult {
  name: string;
  column: string | null;
  /** null: the test was skipped. */
  success: boolean | null;
  /** A failed test with the severity `warn` does not fail its run. */
  severity: string | null;
  /** What was expected, what was found, and the description of the test, as far as they were sent. */
  why: string;
  /** The test itself, such as a SQL query. */
  content: string | null;
  dataset: { namespace: string; name: string } | null;
}

const text = (value: unknown): string | null => (typeof value === "string" && value ? value : null);
const objects = (value: unknown): Loose[] => (Array.isArray(value) ? value.filter((each): each is Loose => typeof each === "object" && each !== null) : []);
const plain = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

/** Names and values of parameters, such as `values: placed, shipped`. */
function parameters(value: unknown): string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
  return Object.entries(value).map(([name, each]) => `${name}: ${Array.isArray(each) ? each.map(plain).join(", ") : plain(each)}`);
}

function whyOf(test: Loose): string {
  const [expected, actual] = [test["expected"], test["actual"]].map((each) => (each === undefined || each === null ? null : plain(each)));
  const failures = test["failures"];
  return [
    ...(expected !== null && expected !== undefined ? [`expected ${expected}`] : []),
    ...(actual !== null && actual !== undefined ? [`found ${actual}`] : []),
    ...(typeof failures === "number" && failures > 0 ? [`${count(failures)} ${failures === 1 ? "row fails" : "rows fail"}`] : []),
    ...parameters(test["params"]),
    ...parameters(test["properties"]),
    ...(text(test["description"]) ? [text(test["description"]) ?? ""] : []),
  ].join("; ");
}

/** The results in the facet `dataQualityAssertions`. */
export function assertionsOf(facets: Loose | undefined, dataset: TestResult["dataset"] = null): TestResult[] {
  return objects(facet(facets, "dataQualityAssertions")["assertions"]).map((each) => {
    const [kind, name] = [text(each["assertion"]), text(each["name"])];
    return {
      name: kind ?? name ?? "assertion",
      column: text(each["column"]),
      success: each["success"] === true ? true : each["success"] === false ? false : null,
      severity: text(each["severity"]),
      why: [whyOf(each), kind && name && name !== kind ? name : ""].filter(Boolean).join("; "),
      content: text(each["content"]),
      dataset,
    };
  });
}

const STATUS: Record<string, boolean> = { pass: true, fail: false };

/** All test results of a run, failed ones first: of its inputs and outputs, and of the run facet `test`. */
export function testsOf(run: Run): TestResult[] {
  const versions = [...run.inputDatasetVersions, ...run.outputDatasetVersions];
  const results = versions.flatMap((each) => assertionsOf(each.facets, each.datasetVersionId));
  const own = objects(facet(run.facets, "test")["tests"]).map((each) => ({
    name: text(each["name"]) ?? text(each["type"]) ?? "test",
    column: null,
    success: STATUS[String(each["status"])] ?? null,
    severity: text(each["severity"]),
    why: whyOf(each),
    content: text(each["content"]),
    dataset: null,
  }));
  const order = (result: TestResult): number => (result.success === false ? 0 : result.success === null ? 1 : 2);
  return [...results, ...own].toSorted((a, b) => order(a) - order(b));
}

/** `2 passed, 1 failed`. */
export function summaryOf(results: readonly TestResult[]): string {
  const [passed, failed, skipped] = [true, false, null].map((success) => results.filter((each) => each.success === success).length);
  return [`${passed} passed`, `${failed} failed`, ...(skipped ? [`${skipped} skipped`] : [])].join(", ");
}

export interface QualityPoint {
  at: number;
  /** Differs between points. */
  key: string;
  /** The run that read the dataset to test it, or that wrote it. */
  run: { id: string; name: string | null } | null;
  rowCount: number | null;
  /** Number of nulls by column. */
  nulls: Record<string, number>;
  results: TestResult[];
}

function pointOf(at: string, key: string, run: QualityPoint["run"], facets: Loose): QualityPoint[] {
  const metrics = facet(facets, "dataQualityMetrics");
  const results = assertionsOf(facets);
  const rows = metrics["rowCount"] ?? facet(facets, "outputStatistics")["rowCount"];
  if (!Object.keys(metrics).length && !results.length && rows === undefined) return [];
  const nulls: Record<string, number> = {};
  for (const [name, of] of Object.entries(facet(metrics, "columnMetrics"))) {
    const amount = (of as { nullCount?: unknown } | null)?.nullCount;
    if (typeof amount === "number") nulls[name] = amount;
  }
  return [{ at: Date.parse(at), key, run, rowCount: typeof rows === "number" ? rows : null, nulls, results }];
}

/**
 * Quality over time, oldest first: of the versions that runs wrote, and of the runs that tested the dataset.
 *
 * @param reports null if they are not known; then the versions that no run wrote are used instead.
 */
export function qualityOf(versions: readonly DatasetVersion[], reports: DatasetQuality["quality"] | null): QualityPoint[] {
  const written = versions.flatMap((version) => {
    const run = version.createdByRun;
    // A version that was only read or described has the results that are in the reports.
    if (reports !== null && !run) return [];
    return pointOf(version.createdAt, version.version, run && { id: run.id, name: run.jobVersion?.name ?? null }, version.facets);
  });
  const known = new Set(written.map((point) => point.key));
  const tested = (reports ?? []).flatMap((report, at) => {
    if (report.written && known.has(report.version)) return [];
    return pointOf(report.at, `${report.run?.id ?? ""} ${at}`, report.run && { id: report.run.id, name: report.run.name }, report.facets);
  });
  return [...written, ...tested].toSorted((a, b) => a.at - b.at);
}
