/** How wide the cards of a picture are, and how much of a name has room on one. */
import { shortened, visible } from "./names.ts";

/** How wide a text is set, in pixels. */
export type Measure = (text: string) => number;

export const NARROWEST = 204;
export const WIDEST = 300;
// Beside the name: the edge, the symbol and the padding.
const BESIDE = 50;
// No name of more characters than this has room on the widest card.
const MAX_CHARACTERS = 80;

/** As wide as the longest name needs it, within bounds: all cards of a picture are alike. */
export function cardWidth(names: readonly string[], measure: Measure): number {
  const longest = names.reduce((most, name) => Math.max(most, measure(visible(name.slice(0, MAX_CHARACTERS)))), 0);
  return Math.min(Math.max(Math.ceil(BESIDE + longest), NARROWEST), WIDEST);
}

/** The name with its middle left out, if it has no room; its hidden marks written out. */
export function onCard(name: string, width: number, measure: Measure): string {
  const whole = visible(name);
  const room = width - BESIDE;
  if (whole.length <= MAX_CHARACTERS && measure(whole) <= room) return whole;
  let [fits, tooMany] = [1, Math.min(whole.length, MAX_CHARACTERS) + 1];
  while (tooMany - fits > 1) {
    const middle = Math.floor((fits + tooMany) / 2);
    if (measure(shortened(whole, middle)) <= room) fits = middle;
    else tooMany = middle;
  }
  return shortened(whole, fits);
}
