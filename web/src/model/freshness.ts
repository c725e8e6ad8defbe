/** The dataset that has waited longest for something new. */
import type { MetricsNow } from "../api/shapes.ts";

type Age = MetricsNow["datasetFreshnessSeconds"][number];

/** `of` is null where it is one of those that the service does not tell by name. */
export function stalestOf(now: Pick<MetricsNow, "datasetFreshnessSeconds" | "stalestOtherSeconds">): { seconds: number; of: Age | null } | null {
  const named = now.datasetFreshnessSeconds.reduce<Age | null>((worst, each) => (!worst || each.seconds > worst.seconds ? each : worst), null);
  const other = now.stalestOtherSeconds;
  if (other !== null && (!named || other > named.seconds)) return { seconds: other, of: null };
  return named && { seconds: named.seconds, of: named };
}
