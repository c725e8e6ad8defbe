/** How wide names are set on cards: fonts differ from machine to machine. */
import type { Measure } from "../model/cards.ts";

// As `.card .title` sets it.
const FONT = "560 14px";

let context: CanvasRenderingContext2D | null = null;

export const measure: Measure = (text) => {
  if (context === null) {
    context = document.createElement("canvas").getContext("2d");
    if (context) context.font = `${FONT} ${getComputedStyle(document.documentElement).getPropertyValue("--font")}`;
  }
  return context?.measureText(text).width ?? 8 * text.length;
};
