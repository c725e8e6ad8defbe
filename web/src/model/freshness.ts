/** The dataset with the oldest last write. */
import type { MetricsNow } from "../api/types.ts";

type Age = MetricsNow["datasetFreshnessSeconds"][number];

/** `of` is null if the service does not list it by name. */
export function stalestOf(now: Pick<MetricsNow, "datasetFreshnessSeconds" | "stalestOtherSeconds">): { seconds: number; of: Age | null } | null {
  const named = now.datasetFreshnessSeconds.reduce<Age | null>((worst, each) => (!worst || each.seconds > worst.seconds ? each : worst), null);
  const other = now.stalestOtherSeconds;
  if (other !== null && (!named || other > named.seconds)) return { seconds: other, of: null };
  return named && { seconds: named.seconds, of: named };
}
