/** Counts of alerts, including those that are not in the list. */
import type { Alert, Alerts } from "../api/types.ts";

export const STATES: readonly Alert["state"][] = ["firing", "error", "pending", "no data", "ok"];

/** The count of the service or, if there is none, of the list. */
export function countOf(answer: Alerts, state: Alert["state"]): number {
  return answer.states ? (answer.states[state] ?? 0) : answer.alerts.filter((alert) => alert.state === state).length;
}

export function openCount(answer: Alerts): number {
  return STATES.filter((state) => state !== "ok").reduce((sum, state) => sum + countOf(answer, state), 0);
}

/** `2 firing, 1 pending`, without those that are ok. */
export function stateWords(answer: Alerts): string {
  return STATES.flatMap((state) => {
    const number = state === "ok" ? 0 : countOf(answer, state);
    return number ? [`${number.toLocaleString("en-US")} ${state}`] : [];
  }).join(", ");
}

/** `100 of 2,000` if some are not shown, else the number. */
export function shownOf(shown: number, total: number): string {
  const all = Math.max(shown, total).toLocaleString("en-US");
  return shown < total ? `${shown.toLocaleString("en-US")} of ${all}` : all;
}
