/**
 * A drawing that can be moved and zoomed: by pointer, wheel, two fingers and keys.
 *
 * A few nodes are elements of the page: moving changes only one transform, and they are rendered
 * again only when the view leaves the rendered part, which is larger than the screen. Many nodes
 * are painted instead (see `paint`), except the one that has the focus.
 */
import { type ReactNode, type Ref, useCallback, useEffect, useImperativeHandle, useLayoutEffect, useMemo, useRef, useState } from "react";
import { type Layout, type Placed, type Route, pathOf } from "../model/layout.ts";
import { Icon } from "../ui/Icon.tsx";
import { useGestures } from "./gestures.ts";
import { type Look, colours, linesOf, paint } from "./paint.ts";
import { type Rect, type Size, type View, centre, fit, contains, intersects, startView, visibleRect, zoomAt } from "./view.ts";

export interface CanvasHandle {
  show: (id: string) => void;
  fit: () => void;
}

interface CanvasProps {
  label: string;
  layout: Layout;
  /** The node that is visible at first; a new one is moved into view. */
  focus?: string | null;
  node: (placed: Placed) => ReactNode;
  edgeState?: (route: Route) => string | undefined;
  /** How a node is painted if there are many; without it nodes are always elements. */
  look?: (id: string) => Look | null;
  /** The node from which the arrow keys start: it is always an element. */
  anchor?: string | null;
  pick?: (id: string) => void;
  handle?: Ref<CanvasHandle>;
  /** Drawn below the nodes, in the coordinates of the drawing. */
  under?: ReactNode;
  children?: ReactNode;
}

const MARGIN = 0.5;
const MANY = 90;
const FAR = 0.42;
const STEP = 60;

export function Canvas({ label, layout, focus = null, node, edgeState, look, anchor = null, pick, handle, under, children }: CanvasProps): ReactNode {
  const frame = useRef<HTMLDivElement>(null);
  const layer = useRef<HTMLDivElement>(null);
  const view = useRef<View>({ x: 0, y: 0, scale: 1 });
  const screen = useRef<Size>({ width: 0, height: 0 });
  const touched = useRef(false);
  const surface = useRef<HTMLCanvasElement>(null);
  const rendered = useRef<Rendered>(NOT_RENDERED);
  const [drawn, setDrawn] = useState<Rendered>(NOT_RENDERED);
  const lines = useMemo(() => (look ? linesOf(layout, edgeState ?? (() => undefined)) : []), [layout, edgeState, look]);

  const repaint = useCallback(() => {
    if (!surface.current || !look) return;
    const scene = { nodes: layout.nodes, lines, look, colour: colours(document.documentElement) };
    paint(surface.current, view.current, screen.current, visibleRect(view.current, screen.current, 0), scene);
  }, [layout, lines, look]);

  const apply = useCallback(
    (next: View) => {
      view.current = next;
      const element = layer.current;
      if (element) element.style.transform = `translate(${next.x}px, ${next.y}px) scale(${next.scale})`;
      const shown = visibleRect(next, screen.current, 0);
      const painted = look !== undefined && countVisible(layout.nodes, shown) > MANY;
      const { rect, ...before } = rendered.current;
      const enough = rect !== null && contains(rect, shown) && rect.width < shown.width * 4;
      const far = next.scale < FAR;
      // React renders only if other elements are needed.
      if (!(painted ? before.painted : enough && !before.painted) || before.far !== far) {
        rendered.current = { rect: painted || enough ? rect : visibleRect(next, screen.current, MARGIN), far, painted };
        if (!painted && before.painted) rendered.current.rect = visibleRect(next, screen.current, MARGIN);
        setDrawn(rendered.current);
      } else if (painted) repaint();
    },
    [layout, look, repaint],
  );

  const home = useCallback((): View => {
    const all = fit(layout, screen.current);
    const start = layout.nodes.find((each) => each.id === focus);
    if (all.scale >= FAR) return all;
    // A large drawing starts at the requested node, at a readable scale.
    if (start) return centre({ ...all, scale: 0.8 }, start, screen.current);
    // A few nodes on a small screen start at their sources; many are shown as an overview.
    return layout.nodes.length <= MANY ? startView(layout, screen.current) : all;
  }, [layout, focus]);

  const show = useCallback(
    (id: string) => {
      const found = layout.nodes.find((each) => each.id === id);
      if (found && !contains(visibleRect(view.current, screen.current, -0.02), found)) apply(centre(view.current, found, screen.current));
    },
    [layout, apply],
  );

  useImperativeHandle(handle, () => ({ show, fit: () => apply(fit(layout, screen.current)) }), [show, apply, layout]);

  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    screen.current = { width: element.clientWidth, height: element.clientHeight };
    if (!touched.current) apply(home());
    else apply(view.current);
  }, [apply, home]);

  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      screen.current = { width: element.clientWidth, height: element.clientHeight };
      apply(touched.current ? view.current : home());
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [apply, home]);

  // Paint after each render, and when the theme changes, which React does not notice.
  useLayoutEffect(() => {
    if (drawn.painted) repaint();
  });
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const observer = new MutationObserver(repaint);
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    dark.addEventListener("change", repaint);
    return () => {
      observer.disconnect();
      dark.removeEventListener("change", repaint);
    };
  }, [repaint]);

  useGestures(frame, view, apply, touched);

  const zoom = (factor: number): void => {
    touched.current = true;
    apply(zoomAt(view.current, factor, screen.current.width / 2, screen.current.height / 2));
  };
  const keys = (event: React.KeyboardEvent): void => {
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    const { x, y, scale } = view.current;
    const moves: Record<string, [number, number]> = {
      ArrowLeft: [STEP, 0], ArrowRight: [-STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP],
    };
    const move = event.target === frame.current ? moves[event.key] : undefined;
    if (move) {
      touched.current = true;
      apply({ scale, x: x + move[0], y: y + move[1] });
    } else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") apply(fit(layout, screen.current));
    else return;
    event.preventDefault();
  };

  // Painted nodes are not elements: clicks and tooltips are resolved by position.
  const nodeAt = (event: React.MouseEvent<HTMLDivElement>): string | null => {
    if (!drawn.painted || (event.target as Element).closest("button")) return null;
    const box = event.currentTarget.getBoundingClientRect();
    const { x, y, scale } = view.current;
    const point = { x: (event.clientX - box.left - x) / scale, y: (event.clientY - box.top - y) / scale, width: 0, height: 0 };
    return layout.nodes.find((each) => contains(each, point))?.id ?? null;
  };
  const click = (event: React.MouseEvent<HTMLDivElement>): void => {
    const hit = nodeAt(event);
    if (hit) pick?.(hit);
  };
  const hover = (event: React.MouseEvent<HTMLDivElement>): void => {
    if (!drawn.painted || event.buttons) return;
    const hit = nodeAt(event);
    if (surface.current) surface.current.title = (hit && look?.(hit)?.name) || "";
  };

  return (
    <div className="canvas">
      {/* The drawing handles keys itself, and its nodes are buttons. */}
      <div className="frame" ref={frame} tabIndex={0} role="group" aria-label={label} onKeyDown={keys} onClick={click} onMouseMove={hover} data-far={drawn.far ? "" : undefined}>
        {drawn.painted && <canvas className="surface" ref={surface} aria-hidden="true" />}
        <div className="layer" ref={layer}>
          {under}
          {drawn.painted
            ? layout.nodes.filter((each) => each.id === anchor).map((placed) => <PlacedNode key={placed.id} placed={placed} node={node} />)
            : drawn.rect && <Drawing layout={layout} drawn={drawn.rect} node={node} {...(edgeState ? { edgeState } : {})} />}
        </div>
      </div>
      <div className="zoom" role="group" aria-label="Zoom">
        <button type="button" aria-label="Zoom in" title="Zoom in (+)" onClick={() => zoom(1.25)}>
          <Icon name="plus" />
        </button>
        <button type="button" aria-label="Zoom out" title="Zoom out (-)" onClick={() => zoom(0.8)}>
          <Icon name="minus" />
        </button>
        <button type="button" aria-label="Show all" title="Show all (0)" onClick={() => apply(fit(layout, screen.current))}>
          <Icon name="fit" />
        </button>
      </div>
      {children}
    </div>
  );
}

interface Rendered {
  rect: Rect | null;
  far: boolean;
  painted: boolean;
}

const NOT_RENDERED: Rendered = { rect: null, far: false, painted: false };

function countVisible(nodes: readonly Placed[], shown: Rect): number {
  let count = 0;
  for (const node of nodes) if (intersects(node, shown)) count++;
  return count;
}

function PlacedNode({ placed, node }: { placed: Placed; node: (placed: Placed) => ReactNode }): ReactNode {
  return (
    <div className="place" style={{ left: placed.x, top: placed.y, width: placed.width, height: placed.height }}>
      {node(placed)}
    </div>
  );
}

interface DrawingProps {
  layout: Layout;
  drawn: Rect;
  node: (placed: Placed) => ReactNode;
  edgeState?: (route: Route) => string | undefined;
}

function Drawing({ layout, drawn, node, edgeState }: DrawingProps): ReactNode {
  const routes = useMemo(() => layout.routes.map((route) => ({ route, d: pathOf(route.points), box: boxOf(route.points) })), [layout]);
  const lines = routes.filter((each) => intersects(each.box, drawn));
  const nodes = layout.nodes.filter((each) => intersects(each, drawn));
  return (
    <>
      <svg className="lines" width={1} height={1} aria-hidden="true">
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">
            <path d="M0 0.8 7 4 0 7.2z" />
          </marker>
        </defs>
        {lines.map(({ route, d }) => (
          <path key={`${route.from}\n${route.to}`} d={d} data-state={edgeState?.(route)} data-back={route.back ? "" : undefined} markerEnd="url(#arrow)" />
        ))}
      </svg>
      {nodes.map((placed) => (
        <PlacedNode key={placed.id} placed={placed} node={node} />
      ))}
    </>
  );
}

function boxOf(points: readonly [number, number][]): Rect {
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const [x, y] = [Math.min(...xs), Math.min(...ys)];
  return { x, y, width: Math.max(...xs) - x + 1, height: Math.max(...ys) - y + 1 };
}
