/**
 * A layered layout, left to right: sources on the left, derived nodes on the right.
 *
 * The usual four steps: reverse the edges that close cycles, assign each node to a layer, order the
 * layers so that few edges cross, and place the nodes of a layer near their neighbours. A pure
 * function; a thousand nodes take some tens of milliseconds. Components that are not connected are
 * placed one below the other.
 */

export interface Box {
  id: string;
  width: number;
  height: number;
}

export interface Link {
  from: string;
  to: string;
}

export interface Placed extends Box {
  x: number;
  y: number;
}

export interface Route extends Link {
  /** Corners of the line, from the right side of one node to the left side of the other. */
  points: [number, number][];
  /** A link that closes a cycle, drawn from right to left. */
  back: boolean;
}

export interface Layout {
  nodes: Placed[];
  routes: Route[];
  width: number;
  height: number;
}

export interface Gaps {
  layer: number;
  node: number;
  part: number;
}

const GAPS: Gaps = { layer: 60, node: 16, part: 36 };
// A long link has a cell in every layer it passes, so that lines do not run through nodes.
// With more cells links are drawn straight: the drawing would be unreadable anyway.
const MAX_BENDS = 6_000;
const ORDER_SWEEPS = 8;
const PLACE_SWEEPS = 8;

interface Cell {
  id: number;
  layer: number;
  width: number;
  height: number;
  /** Neighbours to the left and right. */
  left: number[];
  right: number[];
  y: number;
}

export function layout(boxes: readonly Box[], links: readonly Link[], gaps: Gaps = GAPS): Layout {
  const index = new Map(boxes.map((box, at) => [box.id, at]));
  const pairs: [number, number, Link][] = [];
  for (const link of links) {
    const from = index.get(link.from);
    const to = index.get(link.to);
    if (from !== undefined && to !== undefined && from !== to) pairs.push([from, to, link]);
  }
  const nodes: Placed[] = [];
  const routes: Route[] = [];
  let top = 0;
  let width = 0;
  for (const part of parts(boxes.length, pairs)) {
    const drawn = drawPart(boxes, part.nodes, part.pairs, gaps);
    for (const node of drawn.nodes) nodes.push({ ...node, y: node.y + top });
    for (const route of drawn.routes) {
      routes.push({ ...route, points: route.points.map(([x, y]) => [x, y + top]) });
    }
    width = Math.max(width, drawn.width);
    top += drawn.height + gaps.part;
  }
  return { nodes, routes, width, height: Math.max(top - gaps.part, 0) };
}

interface Part {
  nodes: number[];
  pairs: [number, number, Link][];
}

/** Connected components, the largest first; single nodes come last. */
function parts(count: number, pairs: [number, number, Link][]): Part[] {
  const root = Array.from({ length: count }, (_, at) => at);
  const find = (at: number): number => {
    let top = at;
    while (root[top] !== top) top = root[top] ?? top;
    while (root[at] !== top) [root[at], at] = [top, root[at] ?? top];
    return top;
  };
  for (const [from, to] of pairs) root[find(from)] = find(to);
  const found = new Map<number, Part>();
  for (let at = 0; at < count; at++) {
    const key = find(at);
    const part = found.get(key) ?? { nodes: [], pairs: [] };
    part.nodes.push(at);
    found.set(key, part);
  }
  for (const pair of pairs) found.get(find(pair[0]))?.pairs.push(pair);
  return [...found.values()].toSorted((a, b) => b.nodes.length - a.nodes.length);
}

function drawPart(boxes: readonly Box[], members: number[], pairs: Part["pairs"], gaps: Gaps): Layout {
  const local = new Map(members.map((at, number) => [at, number]));
  const edges = pairs.map(([from, to, link]) => {
    return { from: local.get(from) ?? 0, to: local.get(to) ?? 0, link, back: false };
  });
  reverseCycles(members.length, edges);
  const layers = layersOf(members.length, edges);
  const cells: Cell[] = members.map((at, id) => {
    const box = boxes[at];
    const layer = layers[id] ?? 0;
    return { id, layer, width: box?.width ?? 0, height: box?.height ?? 0, left: [], right: [], y: 0 };
  });
  const chains = chain(cells, edges);
  const columns = columnsOf(cells);
  order(columns, cells);
  place(columns, cells, gaps);
  return finish(boxes, members, cells, columns, chains, gaps);
}

interface Directed {
  from: number;
  to: number;
  link: Link;
  back: boolean;
}

/** Reverses the edges that close a cycle, found by a depth-first search. */
function reverseCycles(count: number, edges: Directed[]): void {
  const out: Directed[][] = Array.from({ length: count }, () => []);
  const incoming = new Array<number>(count).fill(0);
  for (const edge of edges) {
    out[edge.from]?.push(edge);
    incoming[edge.to] = (incoming[edge.to] ?? 0) + 1;
  }
  const state = new Uint8Array(count); // 0 new, 1 on the stack, 2 done
  const starts = Array.from({ length: count }, (_, at) => at);
  starts.sort((a, b) => (incoming[a] ?? 0) - (incoming[b] ?? 0));
  for (const start of starts) {
    if (state[start]) continue;
    const stack: [number, number][] = [[start, 0]];
    state[start] = 1;
    while (stack.length) {
      const top = stack[stack.length - 1];
      if (!top) break;
      const edge = out[top[0]]?.[top[1]++];
      if (!edge) {
        state[top[0]] = 2;
        stack.pop();
      } else if (state[edge.to] === 1) {
        edge.back = true;
      } else if (!state[edge.to]) {
        state[edge.to] = 1;
        stack.push([edge.to, 0]);
      }
    }
  }
  for (const edge of edges) {
    if (edge.back) [edge.from, edge.to] = [edge.to, edge.from];
  }
}

/** The longest path from a source; a source is placed right before its first reader. */
function layersOf(count: number, edges: readonly Directed[]): number[] {
  const out: number[][] = Array.from({ length: count }, () => []);
  const missing = new Array<number>(count).fill(0);
  for (const edge of edges) {
    out[edge.from]?.push(edge.to);
    missing[edge.to] = (missing[edge.to] ?? 0) + 1;
  }
  const sources = missing.flatMap((number, at) => (number === 0 ? [at] : []));
  const layers = new Array<number>(count).fill(0);
  const waiting = [...sources];
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    for (const next of out[at] ?? []) {
      layers[next] = Math.max(layers[next] ?? 0, (layers[at] ?? 0) + 1);
      missing[next] = (missing[next] ?? 0) - 1;
      if (missing[next] === 0) waiting.push(next);
    }
  }
  for (const source of sources) {
    const next = (out[source] ?? []).map((at) => layers[at] ?? 0);
    if (next.length) layers[source] = Math.min(...next) - 1;
  }
  return layers;
}

/** Adds a cell in each layer that a long edge passes; returns the cells of every edge. */
function chain(cells: Cell[], edges: readonly Directed[]): { edge: Directed; cellIds: number[] }[] {
  const span = (edge: Directed): number => (cells[edge.to]?.layer ?? 0) - (cells[edge.from]?.layer ?? 0) - 1;
  const bends = edges.reduce((sum, edge) => sum + Math.max(span(edge), 0), 0);
  return edges.map((edge) => {
    const cellIds = [edge.from];
    if (bends <= MAX_BENDS) {
      for (let step = 1; step <= span(edge); step++) {
        const id = cells.length;
        const layer = (cells[edge.from]?.layer ?? 0) + step;
        cells.push({ id, layer, width: 0, height: 4, left: [], right: [], y: 0 });
        cellIds.push(id);
      }
    }
    cellIds.push(edge.to);
    for (let at = 1; at < cellIds.length; at++) {
      const [from, to] = [cellIds[at - 1] ?? 0, cellIds[at] ?? 0];
      cells[from]?.right.push(to);
      cells[to]?.left.push(from);
    }
    return { edge, cellIds };
  });
}

function columnsOf(cells: Cell[]): Cell[][] {
  const columns: Cell[][] = [];
  // In breadth-first order from the left: neighbours start near each other.
  const seen = new Set<number>();
  const starts = cells.toSorted((a, b) => a.layer - b.layer || b.right.length - a.right.length);
  for (const start of starts) {
    const waiting = [start.id];
    for (let head = 0; head < waiting.length; head++) {
      const cell = cells[waiting[head] ?? 0];
      if (!cell || seen.has(cell.id)) continue;
      seen.add(cell.id);
      (columns[cell.layer] ??= []).push(cell);
      waiting.push(...cell.right, ...cell.left);
    }
  }
  return Array.from(columns, (column) => column ?? []);
}

/** Sorts each layer by the barycentre of its neighbours, in both directions; keeps the best order. */
function order(columns: Cell[][], cells: Cell[]): void {
  const rank = new Float64Array(cells.length);
  const updateRank = (column: Cell[]): void => column.forEach((cell, at) => (rank[cell.id] = at));
  columns.forEach(updateRank);
  let best = columns.map((column) => [...column]);
  let fewest = crossings(columns, rank);
  for (let sweep = 0; sweep < ORDER_SWEEPS && fewest > 0; sweep++) {
    const forward = sweep % 2 === 0;
    const inOrder = forward ? columns : columns.toReversed();
    for (const column of inOrder) {
      const middle = new Map<Cell, number>();
      for (const cell of column) {
        const near = (forward ? cell.left : cell.right).map((at) => rank[at] ?? 0);
        middle.set(cell, near.length ? near.reduce((a, b) => a + b, 0) / near.length : (rank[cell.id] ?? 0));
      }
      column.sort((a, b) => (middle.get(a) ?? 0) - (middle.get(b) ?? 0));
      updateRank(column);
    }
    const now = crossings(columns, rank);
    if (now < fewest) {
      fewest = now;
      best = columns.map((column) => [...column]);
    }
  }
  best.forEach((column, at) => (columns[at] = column));
}

/** The number of crossings between adjacent layers, by counting inversions. */
function crossings(columns: Cell[][], rank: Float64Array): number {
  let total = 0;
  for (const column of columns) {
    const ends: number[] = [];
    for (const cell of column) {
      for (const end of cell.right.map((at) => rank[at] ?? 0).toSorted((a, b) => a - b)) ends.push(end);
    }
    total += inversions(ends);
  }
  return total;
}

export function inversions(values: readonly number[]): number {
  const size = Math.max(0, ...values) + 2;
  const tree = new Uint32Array(size + 1);
  let total = 0;
  for (let seen = 0; seen < values.length; seen++) {
    const value = values[seen] ?? 0;
    let smallerOrEqual = 0;
    for (let at = value + 1; at > 0; at -= at & -at) smallerOrEqual += tree[at] ?? 0;
    total += seen - smallerOrEqual;
    for (let at = value + 1; at <= size; at += at & -at) tree[at] = (tree[at] ?? 0) + 1;
  }
  return total;
}

/** Moves cells to the middle of their neighbours as far as the order of the layer allows. */
function place(columns: Cell[][], cells: Cell[], gaps: Gaps): void {
  for (const column of columns) {
    let y = 0;
    for (const cell of column) {
      cell.y = y + cell.height / 2;
      y += cell.height + gap(cell, gaps);
    }
    const half = y / 2;
    for (const cell of column) cell.y -= half;
  }
  for (let sweep = 0; sweep < PLACE_SWEEPS; sweep++) {
    const forward = sweep % 2 === 0;
    // The last sweeps use both sides, which straightens chains.
    const both = sweep >= PLACE_SWEEPS - 2;
    for (const column of forward ? columns : columns.toReversed()) {
      const wishes = column.map((cell) => {
        const near = both ? [...cell.left, ...cell.right] : forward ? cell.left : cell.right;
        if (!near.length) return cell.y;
        return near.reduce((sum, at) => sum + (cells[at]?.y ?? 0), 0) / near.length;
      });
      settle(column, wishes, gaps);
    }
  }
}

const gap = (cell: Cell, gaps: Gaps): number => (cell.width ? gaps.node : gaps.node / 2);

/**
 * The positions nearest to the desired ones, by least squares, that keep order and distance: cells
 * with the same desired position are merged into a block, which moves as one.
 */
function settle(column: Cell[], wishes: number[], gaps: Gaps): void {
  const offsets: number[] = [];
  let offset = 0;
  column.forEach((cell, at) => {
    const before = column[at - 1];
    if (before) offset += before.height / 2 + cell.height / 2 + Math.max(gap(before, gaps), gap(cell, gaps));
    offsets.push(offset);
  });
  const blocks: { sum: number; count: number }[] = [];
  column.forEach((_, at) => {
    blocks.push({ sum: (wishes[at] ?? 0) - (offsets[at] ?? 0), count: 1 });
    for (let last = blocks.length - 1; last > 0; last--) {
      const [above, below] = [blocks[last - 1], blocks[last]];
      if (!above || !below || above.sum / above.count <= below.sum / below.count) break;
      blocks.splice(last - 1, 2, { sum: above.sum + below.sum, count: above.count + below.count });
    }
  });
  let at = 0;
  for (const block of blocks) {
    for (let inside = 0; inside < block.count; inside++, at++) {
      const cell = column[at];
      if (cell) cell.y = block.sum / block.count + (offsets[at] ?? 0);
    }
  }
}

function finish(
  boxes: readonly Box[],
  members: number[],
  cells: Cell[],
  columns: Cell[][],
  chains: { edge: Directed; cellIds: number[] }[],
  gaps: Gaps,
): Layout {
  const starts: number[] = [];
  const widths = columns.map((column) => Math.max(0, ...column.map((cell) => cell.width)));
  let x = 0;
  for (const width of widths) {
    starts.push(x);
    x += width + gaps.layer;
  }
  const top = Math.min(...cells.map((cell) => cell.y - cell.height / 2));
  const bottom = Math.max(...cells.map((cell) => cell.y + cell.height / 2));
  const nodes = members.flatMap((at, id) => {
    const [box, cell] = [boxes[at], cells[id]];
    return box && cell ? [{ ...box, x: starts[cell.layer] ?? 0, y: cell.y - cell.height / 2 - top }] : [];
  });
  const routes = chains.map(({ edge, cellIds }) => {
    const points = cellIds.flatMap((at, step): [number, number][] => {
      const cell = cells[at];
      if (!cell) return [];
      const left = starts[cell.layer] ?? 0;
      const y = cell.y - top;
      if (step === 0) return [[left + cell.width, y]];
      if (step === cellIds.length - 1) return [[left, y]];
      return [
        [left, y],
        [left + (widths[cell.layer] ?? 0), y],
      ];
    });
    return { ...edge.link, points: edge.back ? points.toReversed() : points, back: edge.back };
  });
  return { nodes, routes, width: x - gaps.layer, height: bottom - top };
}

/** The `d` attribute of a path: horizontal at both ends, curved in between. */
export function pathOf(points: readonly [number, number][]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let [x, y] = first;
  let text = `M${round(x)} ${round(y)}`;
  for (const [nextX, nextY] of rest) {
    if (nextY === y) text += `H${round(nextX)}`;
    else {
      const middle = round((x + nextX) / 2);
      text += `C${middle} ${round(y)} ${middle} ${round(nextY)} ${round(nextX)} ${round(nextY)}`;
    }
    [x, y] = [nextX, nextY];
  }
  return text;
}

const round = (value: number): number => Math.round(value * 10) / 10;
