import { describe, expect, it } from "vitest";
import type { Alerts, DatasetVersion, JobVersion, Run } from "../src/api/types.ts";
import { parseAddress } from "../src/model/address.ts";
import { NARROWEST, WIDEST, cardWidth, onCard } from "../src/model/cards.ts";
import { countOf, openCount, shownOf, stateWords } from "../src/model/alerts.ts";
import { stalestOf } from "../src/model/freshness.ts";
import { nameOfNode, pretty, shortened, visible } from "../src/model/names.ts";
import { readPath, to } from "../src/model/route.ts";
import { elementsOf, indented } from "../src/model/jsonText.ts";
import { assertionsOf, qualityOf, summaryOf, testsOf } from "../src/model/quality.ts";
import { rowLineageOf } from "../src/model/rowLineage.ts";
import { compareVersions, errorOf, lanesOf, schemaChange, spansOf } from "../src/model/runs.ts";
import { compact, niceTicks } from "../src/model/scale.ts";
import { ago, before, count, duration, freshness, percent, shortDuration } from "../src/model/time.ts";

describe("addresses of records", () => {
  it("are parsed like on the command line", () => {
    expect(parseAddress(" visits-reduced/1@42 ")).toEqual({ topic: "visits-reduced", partition: "1", offset: "42" });
    expect(parseAddress("t/0@9223372036854775807")?.offset).toBe("9223372036854775807");
  });

  it.each(["", "visits", "visits/0", "visits@1", "visits/0@-1", "vis its/0@1", "../0@1", "t/0@9223372036854775808", "t/99999999999@1"])("are refused if invalid: %s", (text) => {
    expect(parseAddress(text)).toBeNull();
  });
});

describe("URLs of views", () => {
  it.each([
    [to.job("kafka://a:1/x", "b.c/d?e#f"), { view: "job", namespace: "kafka://a:1/x", name: "b.c/d?e#f" }],
    [to.dataset("n", "<img>"), { view: "dataset", namespace: "n", name: "<img>" }],
    [to.run("r-1"), { view: "run", id: "r-1" }],
    ["/", { view: "dashboard" }],
    ["/nowhere", { view: "unknown", path: "/nowhere" }],
  ])("are parsed back to their route: %s", (path, route) => {
    expect(readPath(path)).toEqual(route);
  });

  it("contain the address of a record in its usual form", () => {
    expect(to.record({ topic: "visits", partition: 0, offset: 17 })).toBe("/record/visits/0@17");
    expect(readPath("/record/visits/0@17")).toMatchObject({ view: "record", address: { topic: "visits", partition: "0", offset: "17" } });
    expect(readPath("/record/nonsense")).toMatchObject({ view: "record", address: null, text: "nonsense" });
  });

  it("survive an invalid encoding", () => {
    expect(readPath("/jobs/%zz/x")).toEqual({ view: "job", namespace: "%zz", name: "x" });
  });
});

describe("names", () => {
  const measure = (text: string): number => 7.7 * text.length;

  it("show hidden characters as escapes", () => {
    expect(visible("a\u202eb\u200fc\u0007")).toBe("a\\u202eb\\u200fc\\u0007");
    expect(visible("line\nline", true)).toBe("line\nline");
    expect(visible("שלום <b>")).toBe("שלום <b>");
  });

  it("are shortened in the middle", () => {
    expect(shortened("abcdefghij", 6)).toBe("abc…ij");
    expect(shortened("abc", 6)).toBe("abc");
  });

  it("of nodes are found if namespace and name contain colons", () => {
    const spaces = ["etl", "etl:eu", "kafka://localhost:9092"];
    expect(nameOfNode("job:etl:load:daily", spaces)).toBe("load:daily");
    expect(nameOfNode("job:etl:eu:load:daily", spaces)).toBe("load:daily");
    expect(nameOfNode("dataset:kafka://localhost:9092:visits", spaces)).toBe("visits");
    expect(nameOfNode("dataset:kafka://elsewhere:9092:visits", spaces)).toBe("visits");
  });

  it("determine the width of cards, within bounds", () => {
    expect(cardWidth(["visits"], measure)).toBe(NARROWEST);
    const some = "data_synchronization_job_v2";
    expect(cardWidth(["visits", some], measure)).toBeGreaterThan(NARROWEST);
    expect(cardWidth(["visits", some], measure)).toBeLessThan(WIDEST);
    expect(onCard(some, cardWidth([some], measure), measure)).toBe(some);
    expect(cardWidth(["x".repeat(2000)], measure)).toBe(WIDEST);
  });

  it("keep both ends on a card that is too narrow", () => {
    const [one, other] = ["warehouse.sales.customers_by_country_of_order_eu", "warehouse.sales.customers_by_country_of_order_us"].map((name) => onCard(name, WIDEST, measure));
    expect(one).not.toBe(other);
    expect(one).toMatch(/^warehouse\.sales.*….*_eu$/);
    expect(onCard("a\u202eb", WIDEST, measure)).toBe("a\\u202eb");
  });

  it("are indented if they are JSON, and unchanged otherwise", () => {
    expect(pretty('{"a":1}')).toBe('{\n  "a": 1\n}');
    expect(pretty("{")).toBe("{");
  });
});

describe("times and numbers", () => {
  const now = Date.parse("2026-01-02T00:00:00Z");

  it("have at most two units", () => {
    expect([120, 4200, 61_000, 3_600_000, 93_784_000, null].map((ms) => duration(ms))).toEqual(["120 ms", "4.2 s", "1 min 1 s", "1 h", "1 d 2 h", "–"]);
    expect([500, 90_000, 150_000, 10_800_000].map(shortDuration)).toEqual(["500 ms", "90 s", "2.5 min", "3 h"]);
  });

  it("are shown relative to now", () => {
    expect(ago("2026-01-01T23:56:00Z", now)).toBe("4 min ago");
    expect(ago("2026-01-02T02:00:00Z", now)).toBe("in 2 h");
    expect(ago(null, now)).toBe("never");
  });

  it("are shown relative to a time in the past", () => {
    expect(before("2026-01-01T23:56:00Z", now)).toBe("4 min before");
    expect(before("2026-01-02T00:00:00Z", now)).toBe("just then");
  });

  it("have three levels of freshness, and unknown", () => {
    expect(["2026-01-01T23:30:00Z", "2026-01-01T10:00:00Z", "2025-12-30T00:00:00Z", null].map((at) => freshness(at, now))).toEqual(["fresh", "ageing", "stale", "unknown"]);
  });

  it("are short on axes", () => {
    expect([950, 1234, 3_400_000, 0.5].map(compact)).toEqual(["950", "1.23k", "3.4M", "0.5"]);
    expect(niceTicks(0, 97, 4)).toEqual([0, 50]);
    expect(niceTicks(3, 3, 4)).toEqual([3]);
    expect([count(1234567), percent(0.987), percent(1), percent(null)]).toEqual(["1,234,567", "98.7 %", "100 %", "–"]);
  });
});

describe("runs", () => {
  const run = (more: object): Run => ({ id: "r", state: "COMPLETED", createdAt: "2026-01-01T00:00:00Z", updatedAt: "2026-01-01T00:00:00Z", startedAt: null, endedAt: null, facets: {}, ...more }) as unknown as Run;

  it("that overlap are in different lanes, and a running one ends now", () => {
    const now = Date.parse("2026-01-01T03:00:00Z");
    const spans = spansOf(
      [
        run({ id: "c", startedAt: "2026-01-01T02:00:00Z", state: "RUNNING" }),
        run({ id: "a", startedAt: "2026-01-01T00:00:00Z", endedAt: "2026-01-01T01:00:00Z" }),
        run({ id: "b", startedAt: "2026-01-01T00:30:00Z", endedAt: "2026-01-01T02:30:00Z" }),
      ],
      now,
    );
    expect(spans.map((span) => span.run.id)).toEqual(["a", "b", "c"]);
    expect(spans.at(-1)?.to).toBe(now);
    expect(lanesOf(spans)).toEqual([0, 1, 0]);
  });

  it("have an error if their facet is valid", () => {
    expect(errorOf(run({ facets: { errorMessage: { message: "no", stackTrace: "at x" } } }))).toEqual({ message: "no", language: null, stack: "at x" });
    expect(errorOf(run({ facets: { errorMessage: { message: 7 } } }))).toBeNull();
  });

  it("have versions that can be compared", () => {
    const version = (location: string, facets: object): JobVersion =>
      ({ createdAt: "x", location, inputs: [{ namespace: "n", name: "a" }], outputs: [], latestRun: { id: "r", state: "COMPLETED", facets } }) as unknown as JobVersion;
    const rows = compareVersions(version("v1", { sql: { _producer: "p", query: "1" } }), version("v2", { sql: { query: "1" } }));
    expect(rows.filter((row) => !row.same).map((row) => row.what)).toEqual(["location"]);
    expect(schemaChange([{ name: "a" }, { name: "b" }], [{ name: "b" }, { name: "c" }])).toEqual({ added: ["c"], removed: ["a"] });
  });

  it("write quality facets to versions of datasets", () => {
    const version = (createdAt: string, facets: object): DatasetVersion => ({ createdAt, version: createdAt, facets }) as unknown as DatasetVersion;
    const points = qualityOf([
      version("2026-01-02T00:00:00Z", { dataQualityMetrics: { rowCount: 5, columnMetrics: { a: { nullCount: 2 }, b: null } } }),
      version("2026-01-01T00:00:00Z", { dataQualityAssertions: { assertions: [{ assertion: "not_null", success: false, column: "a" }, { assertion: "x", success: true }] } }),
      version("2026-01-03T00:00:00Z", {}),
    ], null);
    expect(points.map((point) => [point.rowCount, point.nulls, summaryOf(point.results)])).toEqual([
      [null, {}, "1 passed, 1 failed"],
      [5, { a: 2 }, "0 passed, 0 failed"],
    ]);
  });
});

describe("test results", () => {
  const failed = { assertion: "accepted_values", column: "status", success: false, severity: "error", expected: "placed, shipped", actual: "lost", params: { values: ["placed", "shipped"] } };
  const facets = { dataQualityAssertions: { assertions: [{ assertion: "unique", column: "id", success: true }, failed, null, "no object"] } };
  const run = (more: object): Run => ({ inputDatasetVersions: [], outputDatasetVersions: [], facets: {}, ...more }) as unknown as Run;

  it("have the reason that was sent", () => {
    const [, result] = assertionsOf(facets);
    expect(result).toMatchObject({ name: "accepted_values", column: "status", success: false, why: "expected placed, shipped; found lost; values: placed, shipped" });
  });

  it("have the number of rows that fail, and the description", () => {
    const [result] = assertionsOf({ dataQualityAssertions: { assertions: [{ assertion: "not_null", name: "id_is_set", success: false, failures: 1200, description: "Ids are set." }] } });
    expect(result?.why).toBe("1,200 rows fail; Ids are set.; id_is_set");
  });

  it("of a run are those of its inputs, its outputs and the run itself, failed ones first", () => {
    const version = { datasetVersionId: { namespace: "n", name: "orders", version: "v" }, facets };
    const own = { test: { tests: [{ name: "fresh", status: "fail", severity: "warn", actual: "2 d" }, { name: "later", status: "skip" }] } };
    const results = testsOf(run({ inputDatasetVersions: [version], facets: own }));
    expect(results.map((each) => [each.name, each.success, each.dataset?.name ?? null])).toEqual([
      ["accepted_values", false, "orders"], ["fresh", false, null], ["later", null, null], ["unique", true, "orders"],
    ]);
    expect(summaryOf(results)).toBe("1 passed, 2 failed, 1 skipped");
  });

  it("of runs that only read the dataset are part of its quality over time, once", () => {
    const version = { createdAt: "2026-01-01T00:00:00Z", version: "v1", facets, createdByRun: { id: "w", jobVersion: { name: "load" } } } as unknown as DatasetVersion;
    const seen = { ...version, version: "v2", createdByRun: null } as DatasetVersion;
    const report = (at: string, written: boolean): never => ({ at, version: "v1", written, run: { id: "r", namespace: "n", name: "test_orders", state: "FAILED" }, facets }) as never;
    const points = qualityOf([version, seen], [report("2026-01-02T00:00:00Z", false), report("2026-01-01T00:00:00Z", true)]);
    expect(points.map((point) => [new Date(point.at).getUTCDate(), point.run?.name ?? null])).toEqual([[1, "load"], [2, "test_orders"]]);
  });

  it("are empty for facets of any other shape", () => {
    expect(assertionsOf({ dataQualityAssertions: { assertions: "x" } })).toEqual([]);
    expect(testsOf(run({ facets: { test: 1 } }))).toEqual([]);
  });
});

describe("JSON as it was sent", () => {
  const event = '{"eventType":"START","n":12345678901234567890, "same":1,"same":1.0,"text":"a \\"quote\\", [x] {y}","list":[1,[2,{}],[]]}';

  it("is split without changing a value", () => {
    const text = `{"totalCount":2,"other":[1],"events":[${event} , {"events":[3]}],"truncated":true}`;
    expect(elementsOf(text, "events")).toEqual([event, '{"events":[3]}']);
    expect(elementsOf('{"events":[]}', "events")).toEqual([]);
    expect(elementsOf('{"nested":{"events":[1]}}', "events")).toEqual([]);
  });

  it("is indented without changing a value", () => {
    const shown = indented(event);
    expect(shown).toContain('\n  "n": 12345678901234567890,\n  "same": 1,\n  "same": 1.0,');
    expect(shown).toContain('"text": "a \\"quote\\", [x] {y}"');
    expect(shown).toContain('"list": [\n    1,\n    [\n      2,\n      {}\n    ],\n    []\n  ]');
    expect(JSON.parse(shown)).toEqual(JSON.parse(event));
  });
});

describe("alerts", () => {
  const answer = (states: Record<string, number> | undefined, ...listed: string[]): Alerts => ({ alerts: listed.map((state) => ({ state })), totalCount: 250, states }) as unknown as Alerts;

  it("are counted by the service, including those that are not listed", () => {
    const cut = answer({ firing: 120, pending: 3, ok: 127 }, "firing", "firing");
    expect([countOf(cut, "firing"), countOf(cut, "error"), openCount(cut)]).toEqual([120, 0, 123]);
    expect(stateWords(cut)).toBe("120 firing, 3 pending");
  });

  it("are counted from the list if the service has no counts", () => {
    const listed = answer(undefined, "firing", "no data", "ok");
    expect([countOf(listed, "firing"), openCount(listed), stateWords(listed)]).toEqual([1, 2, "1 firing, 1 no data"]);
  });

  it("show how many of them are listed", () => {
    expect([shownOf(100, 2000), shownOf(7, 7)]).toEqual(["100 of 2,000", "7"]);
  });
});

describe("the stalest dataset", () => {
  const named = [{ namespace: "n", name: "a", seconds: 60 }, { namespace: "n", name: "b", seconds: 90 }];

  it("may be one that is not listed by name", () => {
    expect(stalestOf({ datasetFreshnessSeconds: named, stalestOtherSeconds: 3600 })).toEqual({ seconds: 3600, of: null });
    expect(stalestOf({ datasetFreshnessSeconds: named, stalestOtherSeconds: 10 })).toEqual({ seconds: 90, of: named[1] });
    expect(stalestOf({ datasetFreshnessSeconds: [], stalestOtherSeconds: 5 })).toEqual({ seconds: 5, of: null });
    expect(stalestOf({ datasetFreshnessSeconds: [], stalestOtherSeconds: null })).toBeNull();
  });
});

describe("row lineage of a run", () => {
  const of = (fields: object): ReturnType<typeof rowLineageOf> => rowLineageOf({ facets: { headwater_rowLineage: fields } });

  it("has the steps because of which it is not exact, or the reason why it is off", () => {
    expect(of({ coverage: "exact", steps: [] })).toEqual({ coverage: "exact", why: "every row has its exact parents" });
    expect(of({ coverage: "ranges", steps: ["MapInPandas", 7] })?.why).toBe("parents are known as ranges of offsets: because of MapInPandas");
    expect(of({ coverage: "off", steps: [], reason: "enabled is false" })?.why).toBe("rows have no lineage: enabled is false");
  });

  it("is not known without a valid facet", () => {
    expect(rowLineageOf(null)).toBeNull();
    expect(rowLineageOf({})).toBeNull();
    expect(of({ coverage: "nonsense" })).toBeNull();
  });
});
