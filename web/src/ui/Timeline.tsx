/** Runs as bars over time; parallel ones below each other. Each bar links to its run. */
import type { ReactNode } from "react";
import type { Run } from "../api/types.ts";
import { to } from "../model/route.ts";
import { lanesOf, spansOf } from "../model/runs.ts";
import { linear } from "../model/scale.ts";
import { clock, duration, shortClock } from "../model/time.ts";
import { useWidth } from "./Chart.tsx";
import { stateWord } from "./StateBadge.tsx";
import { Link } from "./router.tsx";

const LANE = 20;
const MAX_LANES = 12;

export function Timeline({ runs, now, streaming }: { runs: readonly Run[]; now: number; streaming: boolean }): ReactNode {
  const [ref, width] = useWidth<HTMLDivElement>();
  const spans = spansOf(runs, now);
  const lanes = lanesOf(spans);
  const from = Math.min(...spans.map((span) => span.from));
  const end = Math.max(...spans.map((span) => span.to));
  const x = linear(from, Math.max(end, from + 1), 2, Math.max(width - 6, 10));
  const rows = Math.min(Math.max(0, ...lanes) + 1, MAX_LANES);
  const hours = (end > from ? [0, 0.25, 0.5, 0.75, 1] : [0]).map((share) => from + share * (end - from));
  return (
    <div className="timeline" ref={ref}>
      <ol style={{ height: rows * LANE }} aria-label="Runs, oldest first">
        {width > 0 &&
          spans.map((span, at) => {
            const lane = lanes[at] ?? 0;
            if (lane >= MAX_LANES) return null;
            const left = x(span.from);
            const words = `${stateWord(span.run.state, streaming)}, started ${clock(span.from)}, ${duration(span.to - span.from)}`;
            return (
              <li key={span.run.id} style={{ left, top: lane * LANE, width: Math.max(x(span.to) - left, 5) }}>
                <Link to={to.run(span.run.id)} data-state={span.run.state} title={words} aria-label={`Run ${span.run.id.slice(0, 8)}, ${words}`}>
                  {""}
                </Link>
              </li>
            );
          })}
      </ol>
      <div className="axis" aria-hidden="true">
        {hours.map((at, number) => (
          <span key={number}>{shortClock(at, end - from)}</span>
        ))}
      </div>
    </div>
  );
}
