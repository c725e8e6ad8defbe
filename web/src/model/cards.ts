/** The width of cards, and the part of a name that fits on one. */
import { shortened, visible } from "./names.ts";

/** The width of a text, in pixels. */
export type Measure = (text: string) => number;

export const NARROWEST = 204;
export const WIDEST = 300;
// Border, icon and padding.
const CHROME = 50;
// A name with more characters does not fit on the widest card.
const MAX_CHARACTERS = 80;

/** The width that the longest name needs, within bounds: all cards of a graph have the same width. */
export function cardWidth(names: readonly string[], measure: Measure): number {
  const longest = names.reduce((widest, name) => Math.max(widest, measure(visible(name.slice(0, MAX_CHARACTERS)))), 0);
  return Math.min(Math.max(Math.ceil(CHROME + longest), NARROWEST), WIDEST);
}

/** The name, shortened in the middle if it does not fit; hidden characters are made visible. */
export function onCard(name: string, width: number, measure: Measure): string {
  const full = visible(name);
  const room = width - CHROME;
  if (full.length <= MAX_CHARACTERS && measure(full) <= room) return full;
  let [fits, tooMany] = [1, Math.min(full.length, MAX_CHARACTERS) + 1];
  while (tooMany - fits > 1) {
    const middle = Math.floor((fits + tooMany) / 2);
    if (measure(shortened(full, middle)) <= room) fits = middle;
    else tooMany = middle;
  }
  return shortened(full, fits);
}
