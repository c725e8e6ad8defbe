/**
 * Paints many nodes on a canvas instead of creating elements: a browser moves a thousand painted
 * cards as fast as one. Colours are those of the theme.
 */
import { type Layout, type Placed, type Route, pathOf } from "../model/layout.ts";
import { shortened } from "../model/names.ts";
import { type Rect, type Size, type View, intersects } from "./view.ts";

/** The appearance of a painted node. */
export interface Look {
  name: string;
  /** A colour of the theme, such as `ok`. */
  tone: string;
  round: boolean;
  faded: boolean;
  chosen: boolean;
}

/** All lines of one state, as a single path. */
export interface Lines {
  state: string;
  path: Path2D;
}

// Below this scale text would be unreadable.
const MIN_TEXT_SCALE = 0.36;
const MIN_FONT_ON_SCREEN = 11;
const MAX_FONT = 22;

export function linesOf(layout: Layout, edgeState: (route: Route) => string | undefined): Lines[] {
  const found = new Map<string, Path2D>();
  for (const route of layout.routes) {
    const state = edgeState(route) ?? "";
    const path = found.get(state) ?? new Path2D();
    path.addPath(new Path2D(pathOf(route.points)));
    found.set(state, path);
  }
  return [...found].map(([state, path]) => ({ state, path }));
}

type Colour = (name: string) => string;

export function colours(element: Element): Colour {
  const style = getComputedStyle(element);
  const known = new Map<string, string>();
  return (name) => {
    const found = known.get(name) ?? style.getPropertyValue(`--${name}`).trim();
    known.set(name, found);
    return found;
  };
}

interface Scene {
  nodes: readonly Placed[];
  lines: readonly Lines[];
  look: (id: string) => Look | null;
  colour: Colour;
}

export function paint(canvas: HTMLCanvasElement, view: View, screen: Size, shown: Rect, scene: Scene): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  // A higher density is not visible, and expensive without a graphics card.
  const density = Math.min(window.devicePixelRatio || 1, 2);
  const [width, height] = [Math.round(screen.width * density), Math.round(screen.height * density)];
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, width, height);
  const scale = view.scale * density;
  context.setTransform(scale, 0, 0, scale, view.x * density, view.y * density);
  for (const { state, path } of scene.lines) {
    const words = state.split(" ");
    context.globalAlpha = words.includes("faded") ? 0.25 : 1;
    context.strokeStyle = scene.colour(words.includes("lit") ? "accent" : words.includes("live") ? "run" : "line-strong");
    context.lineWidth = Math.max(1.5, 0.7 / view.scale);
    context.setLineDash(words.includes("starts") ? [2, 6] : []);
    context.stroke(path);
  }
  context.setLineDash([]);
  for (const node of scene.nodes) {
    if (intersects(node, shown)) card(context, node, scene, view.scale);
  }
  context.globalAlpha = 1;
}

function card(context: CanvasRenderingContext2D, node: Placed, { look, colour }: Scene, scale: number): void {
  const appearance = look(node.id);
  if (!appearance) return;
  const withText = scale >= MIN_TEXT_SCALE;
  context.globalAlpha = appearance.faded ? 0.35 : 1;
  context.fillStyle = colour(appearance.chosen ? "accent-soft" : withText ? "surface-1" : `${appearance.tone}-soft`) || colour("surface-2");
  context.fillRect(node.x, node.y, node.width, node.height);
  context.fillStyle = colour(appearance.tone);
  context.fillRect(node.x, node.y, withText ? 5 : Math.max(5, 3 / scale), node.height);
  context.lineWidth = Math.max(1, 0.6 / scale);
  context.strokeStyle = colour(appearance.chosen ? "accent" : "line-strong");
  context.strokeRect(node.x, node.y, node.width, node.height);
  if (!withText) return;
  context.fillStyle = colour("ink");
  const size = Math.min(MAX_FONT, Math.max(MIN_FONT_ON_SCREEN / scale, 14));
  context.font = `560 ${size}px ${colour("font")}`;
  context.textBaseline = "middle";
  // Estimated: measuring would cost more than the rest.
  const maxLength = Math.floor((node.width - 20) / (size * 0.55));
  context.fillText(shortened(appearance.name, maxLength), node.x + 14, node.y + node.height / 2, node.width - 20);
}
