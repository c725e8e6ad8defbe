import { useEffect, useMemo, useState } from "react";
import type { Box, Layout, Link } from "../model/layout.ts";

let worker: Worker | null = null;
let tasks = 0;
const waiting = new Map<number, (layout: Layout) => void>();

function place(boxes: readonly Box[], links: readonly Link[], done: (layout: Layout) => void): () => void {
  if (worker === null) {
    worker = new Worker(new URL("../layout.worker.ts", import.meta.url), { type: "module" });
    worker.addEventListener("message", (event: MessageEvent<{ number: number; layout: Layout }>) => {
      waiting.get(event.data.number)?.(event.data.layout);
      waiting.delete(event.data.number);
    });
  }
  const number = ++tasks;
  waiting.set(number, done);
  worker.postMessage({ number, boxes, links });
  return () => waiting.delete(number);
}

/** The layout of boxes; the previous one stays until the next is computed. It depends only on sizes and links. */
export function useLayout(boxes: readonly Box[], links: readonly Link[]): Layout | null {
  const shape = useMemo(
    () => JSON.stringify([boxes.map((box) => [box.id, box.width, box.height]), links.map((link) => [link.from, link.to])]),
    [boxes, links],
  );
  const [layout, setLayout] = useState<Layout | null>(null);
  useEffect(() => {
    const [sizes, ends] = JSON.parse(shape) as [[string, number, number][], [string, string][]];
    return place(
      sizes.map(([id, width, height]) => ({ id, width, height })),
      ends.map(([from, to]) => ({ from, to })),
      setLayout,
    );
  }, [shape]);
  return layout;
}
