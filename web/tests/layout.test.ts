import { describe, expect, it } from "vitest";
import { type Box, inversions, layout, pathOf } from "../src/model/layout.ts";

const box = (id: string): Box => ({ id, width: 100, height: 40 });
const links = (...pairs: string[]): { from: string; to: string }[] =>
  pairs.map((pair) => {
    const [from = "", to = ""] = pair.split(">");
    return { from, to };
  });
const places = (of: ReturnType<typeof layout>): Map<string, { x: number; y: number }> => new Map(of.nodes.map((node) => [node.id, node]));

describe("a layered layout", () => {
  it("places a node to the right of its inputs", () => {
    const drawn = places(layout(["c", "a", "b", "d"].map(box), links("a>b", "b>c", "a>c", "c>d")));
    const xs = ["a", "b", "c", "d"].map((id) => drawn.get(id)?.x ?? -1);
    expect(xs).toEqual(xs.toSorted((one, other) => one - other));
    expect(new Set(xs).size).toBe(4);
  });

  it("never lets nodes overlap", () => {
    const ids = Array.from({ length: 120 }, (_, at) => `n${at}`);
    const all = ids.flatMap((id, at) => (at ? [{ from: `n${Math.floor((at - 1) / 3)}`, to: id }, { from: `n${(at * 7) % at}`, to: id }] : []));
    const { nodes } = layout(ids.map(box), all);
    expect(nodes).toHaveLength(120);
    for (const [at, one] of nodes.entries()) {
      for (const other of nodes.slice(at + 1)) {
        const apart = one.x + one.width <= other.x || other.x + other.width <= one.x || one.y + one.height <= other.y + 0.01 || other.y + other.height <= one.y + 0.01;
        expect(apart, `${one.id} and ${other.id}`).toBe(true);
      }
    }
  });

  it("draws a chain as a straight line", () => {
    const drawn = layout(["a", "b", "c"].map(box), links("a>b", "b>c"));
    expect(new Set(drawn.nodes.map((node) => node.y)).size).toBe(1);
  });

  it("avoids unnecessary crossings", () => {
    const drawn = places(layout(["a", "b", "x", "y"].map(box), links("a>y", "b>x")));
    const [a, b, x, y] = ["a", "b", "x", "y"].map((id) => drawn.get(id)?.y ?? 0) as [number, number, number, number];
    expect(Math.sign(a - b)).toBe(Math.sign(y - x));
  });

  it("handles cycles and marks the link that goes back", () => {
    const drawn = layout(["a", "b", "c"].map(box), links("a>b", "b>c", "c>a"));
    expect(drawn.routes.filter((route) => route.back)).toHaveLength(1);
    expect(drawn.nodes).toHaveLength(3);
  });

  it("places components below each other, the largest first", () => {
    const drawn = places(layout(["lone", "a", "b"].map(box), links("a>b")));
    expect(drawn.get("lone")?.y).toBeGreaterThan(drawn.get("a")?.y ?? Infinity);
  });

  it("ignores links to missing nodes and self links", () => {
    const drawn = layout([box("a")], links("a>a", "a>gone", "gone>a"));
    expect(drawn.routes).toEqual([]);
  });

  it("routes a long link around the nodes between", () => {
    const drawn = layout(["a", "b", "c"].map(box), links("a>b", "b>c", "a>c"));
    const long = drawn.routes.find((route) => route.from === "a" && route.to === "c");
    const b = drawn.nodes.find((node) => node.id === "b");
    const passing = long?.points.filter(([x]) => x >= (b?.x ?? 0) && x <= (b?.x ?? 0) + 100) ?? [];
    expect(passing.length).toBeGreaterThan(0);
    for (const [, y] of passing) expect(y < (b?.y ?? 0) || y > (b?.y ?? 0) + 40).toBe(true);
  });

  it("counts crossings as inversions", () => {
    expect(inversions([0, 1, 2])).toBe(0);
    expect(inversions([2, 1, 0])).toBe(3);
    expect(inversions([1, 1, 0])).toBe(2);
  });

  it("draws paths that are horizontal at both ends", () => {
    expect(pathOf([[0, 5], [10, 5]])).toBe("M0 5H10");
    expect(pathOf([[0, 0], [10, 20]])).toBe("M0 0C5 0 5 20 10 20");
    expect(pathOf([])).toBe("");
  });
});
