/** How many alerts there are, also where the answer has no room for all of them. */
import type { Alert, Alerts } from "../api/shapes.ts";

export const STATES: readonly Alert["state"][] = ["firing", "error", "pending", "no data", "ok"];

/** As the service has counted; by the list, if it has not. */
export function countOf(answer: Alerts, state: Alert["state"]): number {
  return answer.states ? (answer.states[state] ?? 0) : answer.alerts.filter((alert) => alert.state === state).length;
}

export function openCount(answer: Alerts): number {
  return STATES.filter((state) => state !== "ok").reduce((sum, state) => sum + countOf(answer, state), 0);
}

/** `2 firing, 1 pending`; what is well is not told. */
export function stateWords(answer: Alerts): string {
  return STATES.flatMap((state) => {
    const many = state === "ok" ? 0 : countOf(answer, state);
    return many ? [`${many.toLocaleString("en-US")} ${state}`] : [];
  }).join(", ");
}

/** `100 of 2,000` where some are left out, else how many there are. */
export function shownOf(shown: number, total: number): string {
  const all = Math.max(shown, total).toLocaleString("en-US");
  return shown < total ? `${shown.toLocaleString("en-US")} of ${all}` : all;
}
