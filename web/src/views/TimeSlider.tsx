/** Selects a time in the past for the graph; the stops are times at which it changed. */
import { type ReactNode, useEffect, useRef, useState } from "react";
import { ago, clock } from "../model/time.ts";
import { Icon } from "../ui/Icon.tsx";
import { useNow } from "../ui/now.ts";

const DEBOUNCE = 200;

interface SliderProps {
  moments: readonly number[];
  at: string | null;
  /** Null is now. */
  choose: (at: string | null) => void;
}

export function TimeSlider({ moments, at, choose }: SliderProps): ReactNode {
  const now = useNow();
  const last = moments.length;
  const chosen = at ? moments.findLastIndex((moment) => moment <= Date.parse(at)) : last;
  // While it is dragged, the URL is updated only after a pause.
  const [dragged, setDragged] = useState<number | null>(null);
  const stop = dragged ?? chosen;
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const drag = (next: number): void => {
    setDragged(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      const reached = moments[next];
      choose(reached === undefined ? null : new Date(reached).toISOString());
      setDragged(null);
    }, DEBOUNCE);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  const moment = moments[stop];
  const words = moment === undefined ? "now" : `${clock(moment)}, ${ago(new Date(moment).toISOString(), now)}`;
  return (
    <div className="slider">
      <label htmlFor="time">
        <Icon name="clock" /> As of
      </label>
      <input id="time" type="range" min={0} max={last} step={1} value={Math.max(stop, 0)} aria-valuetext={words} onChange={(event) => drag(Number(event.target.value))} />
      <output htmlFor="time">{words}</output>
      <button type="button" className="button" disabled={moment === undefined} onClick={() => choose(null)}>
        Now
      </button>
    </div>
  );
}
