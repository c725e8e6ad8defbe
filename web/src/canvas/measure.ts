/** The width of names on cards: fonts differ between machines. */
import type { Measure } from "../model/cards.ts";

// Must match `.card .title`.
const FONT = "560 14px";

let context: CanvasRenderingContext2D | null = null;

export const measure: Measure = (text) => {
  if (context === null) {
    context = document.createElement("canvas").getContext("2d");
    if (context) context.font = `${FONT} ${getComputedStyle(document.documentElement).getPropertyValue("--font")}`;
  }
  return context?.measureText(text).width ?? 8 * text.length;
};
