import { describe, expect, it } from "vitest";
import type { LineageGraph } from "../src/api/types.ts";
import { contains, fit, startView, visibleRect, zoomAt } from "../src/canvas/view.ts";
import { neighbour } from "../src/canvas/walk.ts";
import { fromColumnLineage, pathThrough } from "../src/model/columns.ts";
import { fold, sideText } from "../src/model/folding.ts";
import { around, fromLineage, momentsOf, only, type Graph, type JobNode } from "../src/model/graph.ts";
import { layout } from "../src/model/layout.ts";
import { rangeText, recordGraph, valueText } from "../src/model/records.ts";

interface JobSpec {
  name: string;
  inputs: string[];
  outputs: string[];
  more?: object;
}

const job = (name: string, inputs: string[], outputs: string[], more: object = {}): JobSpec => ({ name, inputs, outputs, more });

/** A response of the service: jobs of the namespace `n`, datasets of `d` with the time of their last write. */
function graphOf(jobs: JobSpec[], written: Record<string, string> = {}): Graph {
  const edge = (origin: string, destination: string): object => ({ origin, destination });
  const datasets = [...new Set(jobs.flatMap((each) => [...each.inputs, ...each.outputs]))];
  const at = "2026-01-01T00:00:00Z";
  const nodes = [
    ...jobs.map((each) => ({
      id: `job:n:${each.name}`, type: "JOB", inEdges: [], outEdges: each.outputs.map((name) => edge(`job:n:${each.name}`, `dataset:d:${name}`)),
      data: { namespace: "n", name: each.name, type: "BATCH", createdAt: at, latestRun: null, ...each.more },
    })),
    ...datasets.map((name) => ({
      id: `dataset:d:${name}`, type: "DATASET", inEdges: [], outEdges: jobs.filter((each) => each.inputs.includes(name)).map((each) => edge(`dataset:d:${name}`, `job:n:${each.name}`)),
      data: { namespace: "d", name, createdAt: at, fields: [], lastWrittenAt: written[name] ?? null },
    })),
  ];
  return fromLineage({ graph: nodes } as unknown as LineageGraph);
}

const ids = (graph: { nodes: { id: string }[] }): string[] => graph.nodes.map((node) => node.id).toSorted();

describe("the graph of jobs and datasets", () => {
  const chain = graphOf([job("one", ["a"], ["b"]), job("two", ["b"], ["c"]), job("three", ["c"], ["d"]), job("other", ["b"], ["x"])]);

  it("contains each dataset once, however many jobs use it", () => {
    expect(ids(chain).filter((id) => id === "dataset:d:b")).toHaveLength(1);
    expect(chain.edges).toHaveLength(8);
  });

  it("follows a direction, and counts depth in jobs", () => {
    expect(ids(around(chain, "dataset:d:b", "upstream"))).toEqual(["dataset:d:a", "dataset:d:b", "job:n:one"]);
    expect(ids(around(chain, "dataset:d:b", "downstream", 1))).toEqual(["dataset:d:b", "dataset:d:c", "dataset:d:x", "job:n:other", "job:n:two"]);
    expect(ids(around(chain, "dataset:d:b", "both"))).toHaveLength(9);
    expect(around(chain, "job:n:gone", "both").nodes).toEqual([]);
  });

  it("has no edge to a node that was removed", () => {
    const left = only(chain, (node) => node.id !== "job:n:two");
    expect(left.edges.some((edge) => edge.from === "job:n:two" || edge.to === "job:n:two")).toBe(false);
  });

  const run = (state: string, endedAt: string | null): object => ({ latestRun: { id: "r", state, startedAt: "2026-01-02T00:00:00Z", endedAt, updatedAt: endedAt ?? "2026-02-02T00:00:00Z", facets: {}, outputDatasetVersions: [] } });

  it.each(["FAILED", "ABORTED", "NEW", "COMPLETED"])("has the write time of the service, independent of the state of the writer: %s", (state) => {
    const graph = graphOf([job("stream", [], ["t"], { type: "STREAM", ...run(state, "2026-01-03T00:00:00Z") })], { t: "2026-01-02T00:00:00Z" });
    expect(graph.nodes.find((node) => node.id === "dataset:d:t")).toMatchObject({ writtenAt: "2026-01-02T00:00:00Z", live: false });
  });

  it("marks only the datasets of a running stream as live", () => {
    const now = "2026-02-02T00:00:00Z";
    const graph = graphOf([job("stream", ["in"], ["s"], { type: "STREAM", ...run("RUNNING", null) }), job("batch", [], ["b"], run("RUNNING", null))], { s: now, b: now });
    const live = graph.nodes.filter((node) => node.kind === "dataset" && node.live).map((node) => node.id);
    expect(live).toEqual(["dataset:d:s"]);
  });

  it("does not mark an output as live to which the last event of the stream wrote nothing", () => {
    const graph = graphOf([job("stream", [], ["idle", "never"], { type: "STREAM", ...run("RUNNING", null) })], { idle: "2026-01-09T00:00:00Z" });
    expect(graph.nodes.filter((node) => node.kind === "dataset" && node.live)).toEqual([]);
  });

  const children = (...names: string[]): object => ({ children: names.map((name) => ({ namespace: "n", name })) });

  it("connects a job with the jobs that it starts", () => {
    const graph = graphOf([job("dag", [], [], children("load", "report")), job("load", ["raw"], ["clean"]), job("report", ["clean"], []), job("other", ["x"], [])]);
    expect(graph.edges.filter((edge) => edge.starts)).toEqual([
      { from: "job:n:dag", to: "job:n:load", starts: true },
      { from: "job:n:dag", to: "job:n:report", starts: true },
    ]);
    expect(ids(around(graph, "job:n:dag", "both"))).toEqual(["dataset:d:clean", "dataset:d:raw", "job:n:dag", "job:n:load", "job:n:report"]);
    expect(ids(around(graph, "job:n:dag", "upstream", 1))).toContain("dataset:d:raw");
    // Depth and direction of a child follow datasets only.
    expect(ids(around(graph, "job:n:report", "upstream"))).toEqual(["dataset:d:clean", "dataset:d:raw", "job:n:load", "job:n:report"]);
  });

  it("ends at jobs that start each other", () => {
    const graph = graphOf([job("a", [], [], children("b")), job("b", [], [], children("a"))]);
    expect(ids(around(graph, "job:n:a", "both"))).toEqual(["job:n:a", "job:n:b"]);
  });

  it("has a slider stop for the start and end of a run", () => {
    const graph = graphOf([job("one", [], ["t"], run("FAILED", "2026-01-03T00:00:00Z"))], { t: "2026-01-01T12:00:00Z" });
    expect(momentsOf(graph).map((at) => new Date(at).toISOString().slice(0, 13))).toEqual(["2026-01-01T00", "2026-01-01T12", "2026-01-02T00", "2026-01-03T00"]);
  });

  it("rounds slider stops up to the next millisecond", () => {
    const graph = graphOf([job("one", [], [], { createdAt: "2026-01-01T00:00:00.123456Z" }), job("two", [], [], { createdAt: "2026-01-01T00:00:00.5Z" })]);
    const base = Date.parse("2026-01-01T00:00:00Z");
    expect(momentsOf(graph)).toEqual([base + 124, base + 500]);
  });

  it("is parsed from a response, with a slider stop for each creation time", () => {
    const node = (id: string, type: string, createdAt: string, out: string[] = []): object => ({
      id, type, data: { namespace: "n", name: id, createdAt, fields: [{ name: "f" }] }, inEdges: [], outEdges: out.map((destination) => ({ origin: id, destination })),
    });
    const graph = fromLineage({ graph: [node("d", "DATASET", "2026-01-02T00:00:00Z", ["j"]), node("j", "JOB", "2026-01-01T00:00:00Z")], truncated: true } as unknown as LineageGraph);
    expect(graph.edges).toEqual([{ from: "d", to: "j" }]);
    expect(graph.truncated).toBe(true);
    expect(momentsOf(graph)).toEqual([Date.parse("2026-01-01T00:00:00Z"), Date.parse("2026-01-02T00:00:00Z")]);
  });
});

describe("dead letter, late and parents topics", () => {
  const none = new Set<string>();
  const rows = (name: string, rowCount: number): object => ({ datasetVersionId: { namespace: "d", name, version: "v" }, facets: { outputStatistics: { rowCount } } });
  const run = { latestRun: { id: "r", state: "RUNNING", facets: {}, outputDatasetVersions: [rows("out-dead-letter", 2), rows("out-late", 0)] } };
  const graph = graphOf([job("stream", ["in"], ["out", "out-dead-letter", "out-late", "out-parents"], run)]);
  const streamOf = (found: Graph): JobNode => found.nodes.find((node) => node.id === "job:n:stream") as JobNode;

  it("are folded into the card of their job, with the rows of its last run", () => {
    const folded = fold(graph, none, none);
    expect(ids(folded)).toEqual(["dataset:d:in", "dataset:d:out", "job:n:stream"]);
    expect(folded.edges).toHaveLength(2);
    expect(sideText(streamOf(folded))).toBe("3 topics, 2 dead letters");
  });

  it("stay nodes if their job is opened, or if they are the selected node", () => {
    const open = fold(graph, new Set(["job:n:stream"]), none);
    expect(open.nodes).toHaveLength(graph.nodes.length);
    expect(streamOf(open).side).toHaveLength(3);
    expect(ids(fold(graph, none, new Set(["dataset:d:out-late"])))).toContain("dataset:d:out-late");
  });

  it("stay nodes if a job reads them, or if their writer does not write the output of that name", () => {
    const read = graphOf([job("stream", [], ["out", "out-dead-letter"]), job("redrive", ["out-dead-letter"], [])]);
    expect(ids(fold(read, none, none))).toContain("dataset:d:out-dead-letter");
    const named = graphOf([job("flights", [], ["flights-late"]), job("other", [], ["flights"])]);
    expect(ids(fold(named, none, none))).toContain("dataset:d:flights-late");
  });

  it("are counted in one line", () => {
    const single = graphOf([job("stream", [], ["out", "out-late"], { latestRun: { ...run.latestRun, outputDatasetVersions: [rows("out-late", 1200)] } })]);
    expect(sideText(streamOf(fold(single, none, none)))).toBe("1 topic, 1,200 late");
  });
});

describe("columns", () => {
  const field = (dataset: string, name: string, from: [string, string][] = []): object => ({
    id: `${dataset}:${name}`, type: "DATASET_FIELD", inEdges: [], outEdges: [],
    data: { namespace: "n", dataset, field: name, fieldType: "string", inputFields: from.map(([d, f]) => ({ namespace: "n", dataset: d, field: f, transformationType: "IDENTITY", transformationDescription: null })) },
  });
  const graph = fromColumnLineage({
    graph: [field("a", "x"), field("a", "y"), field("b", "x", [["a", "x"]]), field("c", "z", [["b", "x"]]), field("c", "w", [["a", "y"]])],
  } as unknown as LineageGraph);

  it("highlights all columns upstream and downstream of a column", () => {
    const { columns, edges } = pathThrough(graph, JSON.stringify(["n", "b", "x"]));
    expect([...columns].map((id) => (JSON.parse(id) as string[]).slice(1).join(".")).toSorted()).toEqual(["a.x", "b.x", "c.z"]);
    expect(edges.size).toBe(2);
  });

  it("does not highlight other columns of the same datasets", () => {
    expect(pathThrough(graph, JSON.stringify(["n", "a", "y"])).columns.has(JSON.stringify(["n", "b", "x"]))).toBe(false);
  });
});

describe("records", () => {
  const record = (offset: number, parents: object[] = [], more: object = {}): never =>
    ({ topic: "t", partition: 0, offset, unlisted: 0, ranges: [], more_parents: false, truncated: false, state: "found", parents, ...more }) as never;

  it("become a graph that contains each record once", () => {
    const source = record(0);
    const graph = recordGraph(record(3, [record(1, [source]), record(2, [source])]), "parents");
    expect(graph.nodes.map((node) => node.id).toSorted()).toEqual(["t/0@0", "t/0@1", "t/0@2", "t/0@3"]);
    expect(graph.edges).toContainEqual({ from: "t/0@0", to: "t/0@2" });
    expect(graph.edges).toHaveLength(4);
  });

  it("are counted if they have more parents than are shown", () => {
    expect(recordGraph(record(3, [record(1, [], { truncated: true }), record(2, [], { unlisted: 9 })]), "parents").cut).toBe(2);
    const range = { topic: "visits", partition: 0, first: 3, last: 17, records: 15 };
    expect(recordGraph(record(3, [record(1, [], { ranges: [range] }), record(2, [], { more_parents: true })]), "parents").cut).toBe(2);
    expect(rangeText(range)).toBe("visits/0@3..17 (15 records)");
  });

  it("show values that are not text as bytes", () => {
    expect(valueText({ base64: "AAEC" })).toBe("3 bytes, base64 AAEC");
    expect([valueText(null), valueText("x"), valueText(undefined)]).toEqual(["null", "x", ""]);
  });
});

describe("the view", () => {
  const screen = { width: 800, height: 600 };

  it("fits a drawing at a scale of at most 1", () => {
    expect(fit({ width: 100, height: 100 }, screen).scale).toBe(1);
    const small = fit({ width: 8000, height: 100 }, screen);
    expect(contains(visibleRect(small, screen, 0), { x: 0, y: 0, width: 8000, height: 100 })).toBe(true);
  });

  it("starts at the sources if the drawing does not fit", () => {
    const view = startView({ width: 2000, height: 3000 }, { width: 390, height: 500 });
    expect(contains(visibleRect(view, { width: 390, height: 500 }, 0), { x: 0, y: 0, width: 300, height: 74 })).toBe(true);
    expect(view.scale).toBeGreaterThan(0.5);
  });

  it("keeps the point under the pointer fixed while zooming", () => {
    const before = { x: 10, y: 20, scale: 0.5 };
    const after = zoomAt(before, 1.6, 300, 200);
    expect((300 - after.x) / after.scale).toBeCloseTo((300 - before.x) / before.scale);
    expect(zoomAt(before, 1000, 0, 0).scale).toBe(2);
  });

  it("follows edges with the arrow keys", () => {
    const box = (id: string): { id: string; width: number; height: number } => ({ id, width: 50, height: 20 });
    const drawn = layout(["a", "b", "c"].map(box), [{ from: "a", to: "b" }, { from: "a", to: "c" }]);
    expect(neighbour(drawn, "b", "ArrowLeft")).toBe("a");
    expect(["b", "c"]).toContain(neighbour(drawn, "a", "ArrowRight"));
    expect([neighbour(drawn, "b", "ArrowDown"), neighbour(drawn, "b", "ArrowUp")]).toContain("c");
    expect(neighbour(drawn, "a", "ArrowLeft")).toBeNull();
  });
});
