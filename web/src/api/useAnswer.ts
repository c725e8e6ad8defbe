/** Answers that stay current: asked again every few seconds while the page is looked at. */
import { useCallback, useEffect, useRef, useState } from "react";
import { type Answer, Problem, ask } from "./client.ts";

export type Asked<T> =
  | { state: "idle" }
  | { state: "loading" }
  | { state: "problem"; problem: Problem; again: () => void }
  /** `late` is why the last attempt to renew it failed; what is shown is older. */
  | { state: "ready"; data: T; late: Problem | null; again: () => void };

export const LIVE = 2_000;
export const SLOW = 10_000;

// What was seen is shown at once when somebody comes back to it, and renewed.
const known = new Map<string, Answer<unknown>>();
const MAX_KNOWN = 60;

export function forgetAnswers(): void {
  known.clear();
}

// Several parts of a view may want the same at the same time: it is asked once.
const asking = new Map<string, Promise<Answer<unknown>>>();

function askOnce<T>(path: string): Promise<Answer<T>> {
  const running = asking.get(path) ?? ask<T>(path).finally(() => asking.delete(path));
  asking.set(path, running);
  return running as Promise<Answer<T>>;
}

function keep(path: string, answer: Answer<unknown>): void {
  known.delete(path);
  known.set(path, answer);
  const oldest = known.keys().next();
  if (known.size > MAX_KNOWN && !oldest.done) known.delete(oldest.value);
}

/** Ask for a path below `/api/v1`; null asks for nothing. `every` 0 asks once. */
export function useAnswer<T>(path: string | null, every: number = LIVE): Asked<T> {
  const [found, setFound] = useState<{ path: string; answer: Answer<T> | null; problem: Problem | null } | null>(null);
  const renew = useRef<() => void>(undefined);
  const again = useCallback(() => renew.current?.(), []);
  const latest = useRef<Answer<T> | null>(null);

  useEffect(() => {
    if (path === null) return;
    let left = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let failures = 0;
    latest.current = (known.get(path) as Answer<T> | undefined) ?? null;

    const once = async (): Promise<void> => {
      try {
        const answer = await askOnce<T>(path);
        if (left) return;
        failures = 0;
        const before = latest.current;
        const same = before !== null && answer.tag !== null && before.tag === answer.tag;
        const kept = same ? before : answer;
        latest.current = kept;
        keep(path, kept);
        // The same object again: nothing is drawn anew.
        setFound((now) => (now?.path === path && now.answer === kept && !now.problem ? now : { path, answer: kept, problem: null }));
      } catch (error) {
        if (left) return;
        failures++;
        const problem = error instanceof Problem ? error : new Problem(0, String(error));
        setFound({ path, answer: latest.current, problem });
        // What is not there now may come; what is refused will not.
        if (problem.status === 401 || problem.status === 403) return;
      }
      if (every > 0) timer = setTimeout(look, Math.min(every * 2 ** Math.min(failures, 4), 30_000));
    };
    const look = (): void => {
      clearTimeout(timer);
      if (document.visibilityState === "hidden") return;
      void once();
    };
    const seen = (): void => {
      if (document.visibilityState === "visible" && every > 0) look();
    };
    renew.current = look;
    void once();
    document.addEventListener("visibilitychange", seen);
    return () => {
      left = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [path, every]);

  if (path === null) return { state: "idle" };
  const current = found?.path === path ? found : null;
  const answer = current?.answer ?? (known.get(path) as Answer<T> | undefined) ?? null;
  if (answer) return { state: "ready", data: answer.data, late: current?.problem ?? null, again };
  if (current?.problem) return { state: "problem", problem: current.problem, again };
  return { state: "loading" };
}
