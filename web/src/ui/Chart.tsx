/** Small charts in SVG, with the colours of the theme and a text summary for screen readers. */
import { type ReactNode, useEffect, useRef, useState } from "react";
import { compact, linear } from "../model/scale.ts";
import { clock, shortClock } from "../model/time.ts";

export interface Point {
  at: number;
  value: number | null;
  /** The run state, which determines the colour. */
  state?: string;
}

export interface Series {
  name: string;
  tone: "accent" | "ok" | "bad" | "warn" | "run" | "quiet";
  points: readonly Point[];
}

interface ChartProps {
  label: string;
  series: readonly Series[];
  format?: (value: number) => string;
  height?: number;
  kind?: "line" | "dots" | "bars";
  low?: number;
  high?: number;
}

const TICK_CHARACTER = 6.6;
const BOTTOM = 20;
const TOP = 8;

/** The current width of an element. */
export function useWidth<T extends HTMLElement>(): [React.RefObject<T | null>, number] {
  const ref = useRef<T>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    // Without padding. Called immediately, and on every change.
    const observer = new ResizeObserver(([entry]) => setWidth(entry?.contentRect.width ?? 0));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

export function Chart({ label, series, format = compact, height = 132, kind = "line", low, high }: ChartProps): ReactNode {
  const [ref, width] = useWidth<HTMLDivElement>();
  const [near, setNear] = useState<number | null>(null);
  const points = (kind === "bars" ? stacked(series) : series).flatMap((each) => each.points.filter((point) => point.value !== null));
  if (!points.length) {
    return (
      <div className="chart empty" ref={ref}>
        <p className="quiet">No data yet.</p>
      </div>
    );
  }
  const times = points.map((point) => point.at);
  const values = points.map((point) => point.value ?? 0);
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const bottom = low ?? Math.min(0, ...values);
  const top = high ?? (Math.max(...values) * 1.08 || 1);
  const span = to - from || 1;
  const y = linear(bottom, top, height - BOTTOM, TOP, 3);
  const left = Math.max(...y.ticks.map((tick) => format(tick).length)) * TICK_CHARACTER + 8;
  const slots = new Set(times).size;
  const half = kind === "bars" ? Math.min((width - left) / slots / 2, 14) : 6;
  const x = linear(from - (from === to ? 1 : 0), to === from ? to + 1 : to, left + half, Math.max(width - half, left + 20));
  const nearest = near === null ? null : nearestTime(times, near, x);
  return (
    <figure className="chart" ref={ref}>
      <svg
        width={width}
        height={height}
        role="img"
        aria-label={`${label}: ${summary(series, format)}`}
        onPointerMove={(event) => setNear(event.nativeEvent.offsetX)}
        onPointerLeave={() => setNear(null)}
      >
        {y.ticks.map((tick) => (
          <g key={tick}>
            <line className="grid" x1={left} x2={width} y1={y(tick)} y2={y(tick)} />
            <text className="tick" x={left - 6} y={y(tick) + 3} textAnchor="end">
              {format(tick)}
            </text>
          </g>
        ))}
        <text className="tick" x={left} y={height - 5}>
          {shortClock(from, span)}
        </text>
        <text className="tick" x={width} y={height - 5} textAnchor="end">
          {shortClock(to, span)}
        </text>
        {/* The tallest first: lower parts of a stack are drawn over it. */}
        {(kind === "bars" ? stacked(series).toReversed() : series).map((each) => (
          <Marks key={each.name} series={each} kind={kind} x={x} y={y} base={y(Math.max(bottom, 0))} size={Math.max(Math.min(((width - left) / slots) * 0.7, 24), 1.5)} />
        ))}
        {nearest !== null && <line className="cursor" x1={x(nearest)} x2={x(nearest)} y1={TOP} y2={height - BOTTOM} />}
      </svg>
      <figcaption>
        {nearest !== null ? (
          <span className="readout">{readout(series, nearest, format)}</span>
        ) : (
          series.length > 1 && series.map((each) => (
            <span key={each.name} className="key" data-tone={each.tone}>
              {each.name}
            </span>
          ))
        )}
      </figcaption>
    </figure>
  );
}

/** Each series on top of the previous ones. */
function stacked(series: readonly Series[]): Series[] {
  const sums = new Map<number, number>();
  return series.map((each) => ({
    ...each,
    points: each.points.map((point) => {
      const value = (sums.get(point.at) ?? 0) + (point.value ?? 0);
      sums.set(point.at, value);
      return { ...point, value };
    }),
  }));
}

interface MarksProps {
  series: Series;
  kind: "line" | "dots" | "bars";
  x: (value: number) => number;
  y: (value: number) => number;
  base: number;
  size: number;
}

function Marks({ series, kind, x, y, base, size }: MarksProps): ReactNode {
  const known = series.points.filter((point) => point.value !== null);
  if (kind === "bars") {
    return known.map((point) => {
      const top = y(point.value ?? 0);
      return (
        <rect key={point.at} className="mark" data-tone={series.tone} x={x(point.at) - size / 2} width={size} y={Math.min(top, base)} height={Math.max(Math.abs(base - top), point.value ? 1 : 0)} rx={1} />
      );
    });
  }
  const line = lines(series.points, x, y);
  return (
    <g data-tone={series.tone} className="marks">
      <path d={line} />
      {(kind === "dots" || known.length < 40) &&
        known.map((point) => <circle key={point.at} data-state={point.state} cx={x(point.at)} cy={y(point.value ?? 0)} r={kind === "dots" ? 3.2 : 2} />)}
    </g>
  );
}

/** A line with breaks where values are missing. */
function lines(points: readonly Point[], x: (value: number) => number, y: (value: number) => number): string {
  let open = false;
  return points
    .map((point) => {
      if (point.value === null) {
        open = false;
        return "";
      }
      const step = `${open ? "L" : "M"}${x(point.at).toFixed(1)} ${y(point.value).toFixed(1)}`;
      open = true;
      return step;
    })
    .join("");
}

function nearestTime(times: readonly number[], pixel: number, x: (value: number) => number): number {
  return times.reduce((best, at) => (Math.abs(x(at) - pixel) < Math.abs(x(best) - pixel) ? at : best), times[0] ?? 0);
}

function readout(series: readonly Series[], at: number, format: (value: number) => string): string {
  const values = series.flatMap((each) => {
    const point = each.points.find((one) => one.at === at && one.value !== null);
    return point ? [series.length > 1 ? `${each.name} ${format(point.value ?? 0)}` : format(point.value ?? 0)] : [];
  });
  return `${clock(at)} · ${values.join(" · ")}`;
}

function summary(series: readonly Series[], format: (value: number) => string): string {
  return series
    .map((each) => {
      const last = each.points.findLast((point) => point.value !== null);
      return last ? `${each.name} ${format(last.value ?? 0)} at ${clock(last.at)}, ${each.points.length} points` : `${each.name} no data`;
    })
    .join("; ");
}

/** A line without axes, next to a number. */
export function Spark({ points, tone, label }: { points: readonly Point[]; tone: Series["tone"]; label: string }): ReactNode {
  const known = points.filter((point) => point.value !== null);
  if (known.length < 2) return <svg className="spark" viewBox="0 0 120 28" aria-hidden="true" />;
  const values = known.map((point) => point.value ?? 0);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = linear(known[0]?.at ?? 0, known[known.length - 1]?.at ?? 1, 1, 119);
  const y = low === high ? () => 14 : linear(low, high, 25, 3);
  return (
    <svg className="spark" viewBox="0 0 120 28" preserveAspectRatio="none" role="img" aria-label={label}>
      <path data-tone={tone} d={lines(points, x, y)} />
    </svg>
  );
}
