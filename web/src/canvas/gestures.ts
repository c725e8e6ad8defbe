/** Dragging, and zooming with the wheel or two pointers. */
import { useEffect } from "react";
import { type View, zoomAt } from "./view.ts";

/** Uses DOM listeners, because the wheel must not scroll the page. */
export function useGestures(
  frame: React.RefObject<HTMLDivElement | null>,
  view: React.RefObject<View>,
  apply: (next: View) => void,
  touched: React.RefObject<boolean>,
): void {
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const pointers = new Map<number, { x: number; y: number }>();
    let moved = false;
    const at = (event: PointerEvent | WheelEvent): { x: number; y: number } => {
      const box = element.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    const down = (event: PointerEvent): void => {
      if (event.button !== 0) return;
      moved = false;
      pointers.set(event.pointerId, at(event));
    };
    const move = (event: PointerEvent): void => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const now = at(event);
      if (!moved && Math.hypot(now.x - before.x, now.y - before.y) < 4) return;
      if (!moved) element.setPointerCapture(event.pointerId);
      moved = true;
      touched.current = true;
      element.dataset["moving"] = "";
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
      pointers.set(event.pointerId, now);
      const { x, y, scale } = view.current;
      if (other) {
        const [was, is] = [Math.hypot(before.x - other.x, before.y - other.y), Math.hypot(now.x - other.x, now.y - other.y)];
        apply(zoomAt(view.current, is / (was || 1), (now.x + other.x) / 2, (now.y + other.y) / 2));
      } else apply({ scale, x: x + now.x - before.x, y: y + now.y - before.y });
    };
    const up = (event: PointerEvent): void => {
      pointers.delete(event.pointerId);
      if (!pointers.size) delete element.dataset["moving"];
    };
    // The end of a drag is not a click.
    const click = (event: MouseEvent): void => {
      if (moved) event.stopPropagation();
      moved = false;
    };
    const wheel = (event: WheelEvent): void => {
      event.preventDefault();
      touched.current = true;
      const { x, y } = at(event);
      const pixels = event.deltaMode === 1 ? event.deltaY * 20 : event.deltaY;
      apply(zoomAt(view.current, Math.exp(-Math.max(Math.min(pixels, 120), -120) * 0.0022), x, y));
    };
    element.addEventListener("pointerdown", down);
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", up);
    element.addEventListener("pointercancel", up);
    element.addEventListener("click", click, true);
    element.addEventListener("wheel", wheel, { passive: false });
    return () => {
      element.removeEventListener("pointerdown", down);
      element.removeEventListener("pointermove", move);
      element.removeEventListener("pointerup", up);
      element.removeEventListener("pointercancel", up);
      element.removeEventListener("click", click, true);
      element.removeEventListener("wheel", wheel);
    };
  }, [frame, view, apply, touched]);
}
