/** The node that an arrow key moves to. */
import type { Layout, Placed } from "../model/layout.ts";

const AHEAD: Record<string, (from: Placed, to: Placed) => boolean> = {
  ArrowLeft: (from, to) => to.x + to.width <= from.x,
  ArrowRight: (from, to) => to.x >= from.x + from.width,
  ArrowUp: (from, to) => to.y + to.height <= from.y,
  ArrowDown: (from, to) => to.y >= from.y + from.height,
};

/** The neighbour in a direction: linked nodes first, then the nearest. */
export function neighbour(layout: Layout, id: string, key: string): string | null {
  const from = layout.nodes.find((node) => node.id === id);
  const ahead = AHEAD[key];
  if (!from || !ahead) return null;
  const linked = new Set(layout.routes.flatMap((route) => (route.from === id ? [route.to] : route.to === id ? [route.from] : [])));
  const sideways = key === "ArrowLeft" || key === "ArrowRight";
  let best: { id: string; cost: number } | null = null;
  for (const to of layout.nodes) {
    if (to.id === id || !ahead(from, to)) continue;
    const [dx, dy] = [Math.abs(to.x - from.x), Math.abs(to.y - from.y)];
    const cost = (sideways ? dx + 2 * dy : dy + 4 * dx) * (sideways && linked.has(to.id) ? 0.2 : 1);
    if (!best || cost < best.cost) best = { id: to.id, cost };
  }
  return best?.id ?? null;
}
