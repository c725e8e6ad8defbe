/** Metrics and alerts. A service may be older than the page and lack them: views say so. */

export interface MetricsNow {
  jobSuccessRatio: number | null;
  lineageCoverageRatio: { jobs: number | null; records: number | null };
  datasetFreshnessSeconds: { namespace: string; name: string; seconds: number }[];
  datasets: number;
  jobs: number;
  runsByState: Record<string, number>;
  consumerLag: number | null;
  lateRecords: number;
  deadLettered: number;
  orderViolations: number;
  eventsPerSecond: number;
  ingestSeconds: { p50: number | null; p99: number | null };
}

export interface MetricsPoint {
  at: string;
  jobSuccessRatio: number | null;
  lineageCoverageRatio: { jobs: number | null; records: number | null } | number | null;
  datasets: number | null;
  events: number | null;
  openAlerts: number | null;
  lag: number | null;
}

export interface Alert {
  name: string;
  state: "ok" | "pending" | "firing" | "no data" | "error";
  severity: string | null;
  summary: string | null;
  condition: string | null;
  since: string | null;
  value: string | number | null;
  subject: string | null;
  downstream: string[];
  downstreamCount?: number;
  runbook: string | null;
  channels: string[];
  problem?: string | null;
}

export interface Incident {
  id: string;
  alert: string;
  subject: string | null;
  state: "open" | "ended";
  startedAt: string;
  endedAt: string | null;
  severity: string | null;
  message: string;
  downstream: string[];
}

export interface Alerts {
  alerts: Alert[];
  totalCount: number;
}

export interface Incidents {
  incidents: Incident[];
}
