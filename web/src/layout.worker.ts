/** Computes layouts in a worker, so that the page stays responsive. */
import { type Box, type Link, layout } from "./model/layout.ts";

interface Task {
  number: number;
  boxes: Box[];
  links: Link[];
}

self.addEventListener("message", (event: MessageEvent<Task>) => {
  const { number, boxes, links } = event.data;
  self.postMessage({ number, layout: layout(boxes, links) });
});
