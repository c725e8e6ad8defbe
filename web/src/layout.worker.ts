/** Places are found beside the page, so that it never stands still. */
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
