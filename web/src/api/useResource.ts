/** Responses that stay current: requested again every few seconds while the page is visible. */
import { useCallback, useEffect, useRef, useState } from "react";
import { type ApiResponse, Problem, request } from "./client.ts";

export type Resource<T> =
  | { state: "idle" }
  | { state: "loading" }
  | { state: "problem"; problem: Problem; retry: () => void }
  /** `stale` is set if the last refresh failed; the data is older. */
  | { state: "ready"; data: T; stale: Problem | null; retry: () => void };

export const LIVE = 2_000;
export const SLOW = 10_000;

// Shown immediately when a view is opened again, and then refreshed.
const cache = new Map<string, ApiResponse<unknown>>();
const MAX_CACHED = 60;

export function clearCache(): void {
  cache.clear();
}

// Several parts of a view may need the same path at the same time: it is requested once.
const pending = new Map<string, Promise<ApiResponse<unknown>>>();

function requestOnce<T>(path: string): Promise<ApiResponse<T>> {
  const running = pending.get(path) ?? request<T>(path).finally(() => pending.delete(path));
  pending.set(path, running);
  return running as Promise<ApiResponse<T>>;
}

function store(path: string, response: ApiResponse<unknown>): void {
  cache.delete(path);
  cache.set(path, response);
  const oldest = cache.keys().next();
  if (cache.size > MAX_CACHED && !oldest.done) cache.delete(oldest.value);
}

interface Result<T> {
  path: string;
  response: ApiResponse<T> | null;
  problem: Problem | null;
}

/** Requests a path below `/api/v1`; null requests nothing. `every` 0 requests it once. */
export function useResource<T>(path: string | null, every: number = LIVE): Resource<T> {
  const [result, setResult] = useState<Result<T> | null>(null);
  const refreshNow = useRef<() => void>(undefined);
  const retry = useCallback(() => refreshNow.current?.(), []);
  const latest = useRef<ApiResponse<T> | null>(null);

  useEffect(() => {
    if (path === null) return;
    let cancelled = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let failures = 0;
    latest.current = (cache.get(path) as ApiResponse<T> | undefined) ?? null;

    const load = async (): Promise<void> => {
      try {
        const response = await requestOnce<T>(path);
        if (cancelled) return;
        failures = 0;
        const previous = latest.current;
        const same = previous !== null && response.etag !== null && previous.etag === response.etag;
        const current = same ? previous : response;
        latest.current = current;
        store(path, current);
        // The same object again: nothing is rendered.
        setResult((now) => (now?.path === path && now.response === current && !now.problem ? now : { path, response: current, problem: null }));
      } catch (error) {
        if (cancelled) return;
        failures++;
        const problem = error instanceof Problem ? error : new Problem(0, String(error));
        setResult({ path, response: latest.current, problem });
        // A missing resource may appear later; a refused one will not.
        if (problem.status === 401 || problem.status === 403) return;
      }
      if (every > 0) timer = setTimeout(refresh, Math.min(every * 2 ** Math.min(failures, 4), 30_000));
    };
    const refresh = (): void => {
      clearTimeout(timer);
      if (document.visibilityState === "hidden") return;
      void load();
    };
    const onVisible = (): void => {
      if (document.visibilityState === "visible" && every > 0) refresh();
    };
    refreshNow.current = refresh;
    void load();
    document.addEventListener("visibilitychange", onVisible);
    return () => {
      cancelled = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", onVisible);
    };
  }, [path, every]);

  if (path === null) return { state: "idle" };
  const current = result?.path === path ? result : null;
  const response = current?.response ?? (cache.get(path) as ApiResponse<T> | undefined) ?? null;
  if (response) return { state: "ready", data: response.data, stale: current?.problem ?? null, retry };
  if (current?.problem) return { state: "problem", problem: current.problem, retry };
  return { state: "loading" };
}
