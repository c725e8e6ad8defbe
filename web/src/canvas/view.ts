/** Panning and zooming, as pure functions. */

export interface View {
  x: number;
  y: number;
  scale: number;
}

export interface Size {
  width: number;
  height: number;
}

export interface Rect extends Size {
  x: number;
  y: number;
}

export const MIN_SCALE = 0.04;
export const MAX_SCALE = 2;

/** Shows everything, at a scale of at most 1. */
export function fit(content: Size, screen: Size, margin = 24): View {
  const wide = (screen.width - 2 * margin) / Math.max(content.width, 1);
  const high = (screen.height - 2 * margin) / Math.max(content.height, 1);
  const scale = clamp(Math.min(wide, high, 1));
  return {
    scale,
    x: (screen.width - content.width * scale) / 2,
    y: (screen.height - content.height * scale) / 2,
  };
}

/** Zooms so that the point under the pointer stays where it is. */
export function zoomAt(view: View, factor: number, px: number, py: number): View {
  const scale = clamp(view.scale * factor);
  const change = scale / view.scale;
  return { scale, x: px - (px - view.x) * change, y: py - (py - view.y) * change };
}

/** Moves a box to the centre, at a readable scale. */
export function centre(view: View, box: Rect, screen: Size, smallest = 0.7): View {
  const scale = clamp(Math.max(view.scale, smallest));
  return {
    scale,
    x: screen.width / 2 - (box.x + box.width / 2) * scale,
    y: screen.height / 2 - (box.y + box.height / 2) * scale,
  };
}

/** The left end, where the sources are, at a readable scale. */
export function startView(content: Size, screen: Size, scale = 0.7, margin = 16): View {
  const high = (screen.height - content.height * scale) / 2;
  return { scale, x: margin, y: Math.max(high, margin) };
}

/** The part of the drawing that is on the screen, with a margin in screens around it. */
export function visibleRect(view: View, screen: Size, margin: number): Rect {
  const width = screen.width / view.scale;
  const height = screen.height / view.scale;
  return {
    x: -view.x / view.scale - width * margin,
    y: -view.y / view.scale - height * margin,
    width: width * (1 + 2 * margin),
    height: height * (1 + 2 * margin),
  };
}

export function intersects(a: Rect, b: Rect): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

export function contains(outer: Rect, inner: Rect): boolean {
  return (
    outer.x <= inner.x &&
    outer.y <= inner.y &&
    outer.x + outer.width >= inner.x + inner.width &&
    outer.y + outer.height >= inner.y + inner.height
  );
}

const clamp = (scale: number): number => Math.min(Math.max(scale, MIN_SCALE), MAX_SCALE);
