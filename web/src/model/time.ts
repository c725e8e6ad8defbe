/** Times and durations as text. */

const UNITS: [string, number][] = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
  ["s", 1],
];

/** `1.2 s`, `3 min 20 s`, `2 d 4 h`: two units at most. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  let rest = Math.round(ms / 1000);
  const parts: string[] = [];
  for (const [name, size] of UNITS) {
    const number = Math.floor(rest / size);
    rest -= number * size;
    if (number) parts.push(`${number} ${name}`);
    if (parts.length === 2 || (parts.length === 1 && !number)) break;
  }
  return parts.join(" ") || "0 s";
}

/** `800 ms`, `90 s`, `2.5 min`, `30 h`: for axes. */
export function shortDuration(ms: number): string {
  const [unit, size] = ms < 1_000 ? ["ms", 1] : ms < 120_000 ? ["s", 1_000] : ms < 7_200_000 ? ["min", 60_000] : ["h", 3_600_000];
  return `${Number((ms / (size as number)).toPrecision(3))} ${unit}`;
}

/** `just now`, `4 min ago`, `in 2 h`; one unit. */
export function ago(at: string | null | undefined, now: number): string {
  const then = at ? Date.parse(at) : Number.NaN;
  if (Number.isNaN(then)) return "never";
  const seconds = Math.round((now - then) / 1000);
  const size = Math.abs(seconds);
  if (size < 5) return "just now";
  for (const [name, unit] of UNITS) {
    if (size >= unit) {
      const span = `${Math.floor(size / unit)} ${name}`;
      return seconds < 0 ? `in ${span}` : `${span} ago`;
    }
  }
  return "just now";
}

/** The same relative to a time in the past: `4 min before`. */
export function before(at: string | null | undefined, then: number): string {
  const words = ago(at, then);
  return words === "just now" ? "just then" : words.replace(/ ago$/, " before");
}

/** `2026-11-16 06:13:25`, in the reader's zone. */
export function clock(at: string | number | null | undefined): string {
  if (at === null || at === undefined) return "–";
  const moment = new Date(at);
  if (Number.isNaN(moment.getTime())) return "–";
  const two = (n: number): string => String(n).padStart(2, "0");
  const day = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
  return `${day} ${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;
}

/** `06:13` or `11-16 06:13`, for axes. */
export function shortClock(at: number, spanMs: number): string {
  const text = clock(at);
  if (spanMs > 36 * 3_600_000) return text.slice(5, 10);
  if (spanMs > 120_000) return text.slice(11, 16);
  return text.slice(11);
}

export type Freshness = "fresh" | "ageing" | "stale" | "unknown";

/** How old the newest data of a dataset is, in three levels. */
export function freshness(at: string | null | undefined, now: number): Freshness {
  const then = at ? Date.parse(at) : Number.NaN;
  if (Number.isNaN(then)) return "unknown";
  const hours = (now - then) / 3_600_000;
  if (hours < 1) return "fresh";
  return hours < 24 ? "ageing" : "stale";
}

/** 1234567 as `1,234,567`; 1.23e9 stays readable. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return value.toLocaleString("en-US", { maximumFractionDigits: value < 10 ? 2 : 0 });
}

export function percent(ratio: number | null | undefined): string {
  if (ratio === null || ratio === undefined || !Number.isFinite(ratio)) return "–";
  const value = ratio * 100;
  return `${value === 100 || value === 0 ? value : value.toFixed(1)} %`;
}
