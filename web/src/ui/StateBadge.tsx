import type { ReactNode } from "react";

const WORDS: Record<string, string> = {
  NEW: "new",
  RUNNING: "running",
  COMPLETED: "completed",
  FAILED: "failed",
  ABORTED: "aborted",
  OTHER: "other",
};

export function stateWord(state: string | null | undefined, streaming = false): string {
  if (!state) return "never ran";
  return streaming && state === "RUNNING" ? "streaming" : (WORDS[state] ?? state.toLowerCase());
}

/** A run's state in colour and in words. */
export function StateBadge({ state, streaming = false }: { state: string | null | undefined; streaming?: boolean }): ReactNode {
  return (
    <span className="badge" data-state={state ?? "NONE"} data-live={streaming && state === "RUNNING" ? "" : undefined}>
      <i aria-hidden="true" />
      {stateWord(state, streaming)}
    </span>
  );
}
