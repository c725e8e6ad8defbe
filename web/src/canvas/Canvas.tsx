/**
 * A drawing that can be moved and zoomed: by pointer, wheel, two fingers and keys.
 *
 * A few nodes are elements of the page: moving changes one transform and nothing else, and they
 * are built anew only when the view leaves the part that is built, which is larger than the
 * screen. Many nodes are painted instead (see `paint`), all but the one that has the focus.
 */
import { type ReactNode, type Ref, useCallback, useEffect, useImperativeHandle, useLayoutEffect, useMemo, useRef, useState } from "react";
import { type Layout, type Placed, type Route, pathOf } from "../model/layout.ts";
import { Icon } from "../ui/Icon.tsx";
import { useGestures } from "./gestures.ts";
import { type Look, colours, linesOf, paint } from "./paint.ts";
import { type Rect, type Size, type View, centre, fit, holds, meets, seen, sources, zoomAt } from "./view.ts";

export interface CanvasHandle {
  show: (id: string) => void;
  fit: () => void;
}

interface CanvasProps {
  label: string;
  layout: Layout;
  /** What stays in sight first; a new one is brought into sight. */
  focus?: string | null;
  node: (placed: Placed) => ReactNode;
  edgeState?: (route: Route) => string | undefined;
  /** How a node is painted where there are many; without it they never are. */
  look?: (id: string) => Look | null;
  /** The one that keys start from: it is always an element. */
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
  const built = useRef<Built>(NOTHING);
  const [drawn, setDrawn] = useState<Built>(NOTHING);
  const lines = useMemo(() => (look ? linesOf(layout, edgeState ?? (() => undefined)) : []), [layout, edgeState, look]);

  const repaint = useCallback(() => {
    if (!surface.current || !look) return;
    const scene = { nodes: layout.nodes, lines, look, colour: colours(document.documentElement) };
    paint(surface.current, view.current, screen.current, seen(view.current, screen.current, 0), scene);
  }, [layout, lines, look]);

  const apply = useCallback(
    (next: View) => {
      view.current = next;
      const element = layer.current;
      if (element) element.style.transform = `translate(${next.x}px, ${next.y}px) scale(${next.scale})`;
      const shown = seen(next, screen.current, 0);
      const painted = look !== undefined && howMany(layout.nodes, shown) > MANY;
      const { rect, ...before } = built.current;
      const enough = rect !== null && holds(rect, shown) && rect.width < shown.width * 4;
      const far = next.scale < FAR;
      // React hears of it only when something else has to be built.
      if (!(painted ? before.painted : enough && !before.painted) || before.far !== far) {
        built.current = { rect: painted || enough ? rect : seen(next, screen.current, MARGIN), far, painted };
        if (!painted && before.painted) built.current.rect = seen(next, screen.current, MARGIN);
        setDrawn(built.current);
      } else if (painted) repaint();
    },
    [layout, look, repaint],
  );

  const home = useCallback((): View => {
    const all = fit(layout, screen.current);
    const start = layout.nodes.find((each) => each.id === focus);
    if (all.scale >= FAR) return all;
    // A large drawing begins at what was asked for, at a size that can be read.
    if (start) return centre({ ...all, scale: 0.8 }, start, screen.current);
    // A few nodes on a small screen begin at their sources; many are a picture of their own.
    return layout.nodes.length <= MANY ? sources(layout, screen.current) : all;
  }, [layout, focus]);

  const show = useCallback(
    (id: string) => {
      const found = layout.nodes.find((each) => each.id === id);
      if (found && !holds(seen(view.current, screen.current, -0.02), found)) apply(centre(view.current, found, screen.current));
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
    const watch = new ResizeObserver(() => {
      screen.current = { width: element.clientWidth, height: element.clientHeight };
      apply(touched.current ? view.current : home());
    });
    watch.observe(element);
    return () => watch.disconnect();
  }, [apply, home]);

  // After building: whatever changed is painted, too. Themes change without a word to React.
  useLayoutEffect(() => {
    if (drawn.painted) repaint();
  });
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const watch = new MutationObserver(repaint);
    watch.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    dark.addEventListener("change", repaint);
    return () => {
      watch.disconnect();
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

  // What is painted is no element that could be clicked, or tell its whole name.
  const nodeAt = (event: React.MouseEvent<HTMLDivElement>): string | null => {
    if (!drawn.painted || (event.target as Element).closest("button")) return null;
    const box = event.currentTarget.getBoundingClientRect();
    const { x, y, scale } = view.current;
    const point = { x: (event.clientX - box.left - x) / scale, y: (event.clientY - box.top - y) / scale, width: 0, height: 0 };
    return layout.nodes.find((each) => holds(each, point))?.id ?? null;
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
      {/* The drawing takes keys itself, and its nodes are buttons. */}
      <div className="frame" ref={frame} tabIndex={0} role="group" aria-label={label} onKeyDown={keys} onClick={click} onMouseMove={hover} data-far={drawn.far ? "" : undefined}>
        {drawn.painted && <canvas className="surface" ref={surface} aria-hidden="true" />}
        <div className="layer" ref={layer}>
          {under}
          {drawn.painted
            ? layout.nodes.filter((each) => each.id === anchor).map((placed) => <Place key={placed.id} placed={placed} node={node} />)
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

interface Built {
  rect: Rect | null;
  far: boolean;
  painted: boolean;
}

const NOTHING: Built = { rect: null, far: false, painted: false };

function howMany(nodes: readonly Placed[], shown: Rect): number {
  let count = 0;
  for (const node of nodes) if (meets(node, shown)) count++;
  return count;
}

function Place({ placed, node }: { placed: Placed; node: (placed: Placed) => ReactNode }): ReactNode {
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
  const lines = routes.filter((each) => meets(each.box, drawn));
  const nodes = layout.nodes.filter((each) => meets(each, drawn));
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
        <Place key={placed.id} placed={placed} node={node} />
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
