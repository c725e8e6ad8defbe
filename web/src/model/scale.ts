/** Scales and ticks of charts. */

export interface Scale {
  (value: number): number;
  ticks: number[];
}

/** From values to pixels, with ticks at round numbers. */
export function linear(low: number, high: number, from: number, to: number, ticks = 4): Scale {
  const span = high - low || 1;
  const scale = (value: number): number => from + ((value - low) / span) * (to - from);
  return Object.assign(scale, { ticks: niceTicks(low, high, ticks) });
}

/** About `wanted` round numbers between two values. */
export function niceTicks(low: number, high: number, wanted: number): number[] {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? power;
  const ticks: number[] = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) {
    ticks.push(Number(value.toPrecision(12)));
  }
  return ticks;
}

/** `950`, `1.2k`, `3.4M`: for axes. */
export function compact(value: number): string {
  const size = Math.abs(value);
  for (const [mark, unit] of [["G", 1e9], ["M", 1e6], ["k", 1e3]] as const) {
    if (size >= unit) return `${Number((value / unit).toPrecision(3))}${mark}`;
  }
  return String(Number(value.toPrecision(3)));
}
