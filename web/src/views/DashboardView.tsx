/** The overview: metrics, open alerts, and charts of the last day. */
import type { ReactNode } from "react";
import type { Alerts, EventCount, Jobs, MetricsHistory, MetricsNow, MetricsPoint, Run, Runs } from "../api/types.ts";
import { SLOW, useResource } from "../api/useResource.ts";
import { openCount, shownOf, stateWords } from "../model/alerts.ts";
import { stalestOf } from "../model/freshness.ts";
import { nodeId } from "../model/names.ts";
import { to } from "../model/route.ts";
import { errorOf } from "../model/runs.ts";
import { compact } from "../model/scale.ts";
import { count, duration, percent } from "../model/time.ts";
import { Chart, type Point, type Series, Spark } from "../ui/Chart.tsx";
import { Icon } from "../ui/Icon.tsx";
import { Name } from "../ui/Name.tsx";
import { StateBadge } from "../ui/StateBadge.tsx";
import { Notice, ProblemNotice, When, WhenInPanel } from "../ui/States.tsx";
import { Panel, Table, Time } from "../ui/parts.tsx";
import { Link } from "../ui/router.tsx";
import { AlertList } from "./AlertsView.tsx";

// Used by `headwater doctor` to check that events arrive; not part of a pipeline.
const CHECKS = "headwater-checks";
const FAILURES = 8;

export default function DashboardView(): ReactNode {
  const jobs = useResource<Jobs>("/jobs?limit=1", SLOW);
  const now = useResource<MetricsNow>("/metrics/now");
  const history = useResource<MetricsHistory>("/metrics/history?hours=24", SLOW);
  if (jobs.state === "problem") return <ProblemNotice problem={jobs.problem} retry={jobs.retry} what="overview" />;
  const empty = jobs.state === "ready" && jobs.data.totalCount === 0;
  const points = history.state === "ready" ? history.data.points : [];
  return (
    <>
      <div className="bar">
        <h1>Overview</h1>
        <p className="quiet push">the last 24 hours</p>
      </div>
      {empty && (
        <Notice icon="graph" title="No events yet">
          <p>
            Point jobs at this service with <code>MARQUEZ_URL</code>, or run <code>make demo</code>. Jobs and datasets appear here as their events arrive; no reload is needed.
          </p>
        </Notice>
      )}
      <When resource={now} what="metrics">
        {(data) => <MetricTiles now={data} points={points} />}
      </When>
      <OpenAlerts />
      <div className="columns2">
        <EventRate />
        <Panel title="Consumer lag" note={now.state === "ready" && now.data.consumerLag !== null ? `${count(now.data.consumerLag)} records now` : ""}>
          <WhenInPanel resource={history} what="chart">
            {() => <Chart label="Records not read yet" series={[{ name: "lag", tone: "warn", points: series(points, (point) => point.lag) }]} />}
          </WhenInPanel>
        </Panel>
      </div>
      <div className="columns2">
        <Panel title="Success and coverage">
          <WhenInPanel resource={history} what="chart">
            {() => (
              <Chart
                label="Job success and lineage coverage"
                format={(value) => `${Math.round(value * 100)} %`}
                low={0}
                high={1}
                series={[
                  { name: "job success", tone: "ok", points: series(points, (point) => point.jobSuccessRatio) },
                  { name: "jobs with lineage", tone: "accent", points: series(points, (point) => point.lineageCoverageRatio.jobs) },
                ]}
              />
            )}
          </WhenInPanel>
        </Panel>
        <Panel title="Open alerts">
          <WhenInPanel resource={history} what="chart">
            {() => <Chart label="Open alerts" series={[{ name: "open", tone: "bad", points: series(points, (point) => point.openAlerts) }]} />}
          </WhenInPanel>
        </Panel>
      </div>
      <Failures />
    </>
  );
}

const series = (points: readonly MetricsPoint[], of: (point: MetricsPoint) => number | null): Point[] => points.map((point) => ({ at: Date.parse(point.at), value: of(point) }));

interface TileProps {
  title: string;
  value: string;
  about: ReactNode;
  points?: readonly Point[];
  tone?: Series["tone"];
}

function Tile({ title, value, about, points = [], tone = "accent" }: TileProps): ReactNode {
  return (
    <div className="tile" role="group" aria-label={title} data-tone={tone}>
      <h2>{title}</h2>
      <p className="value">{value}</p>
      <Spark points={points} tone={tone} label={`${title} over the last day`} />
      <p className="about">{about}</p>
    </div>
  );
}

function MetricTiles({ now, points }: { now: MetricsNow; points: readonly MetricsPoint[] }): ReactNode {
  const stalest = stalestOf(now);
  const runs = Object.values(now.runsByState).reduce((a, b) => a + b, 0);
  const success = now.jobSuccessRatio;
  return (
    <div className="tiles">
      <Tile
        title="Job success"
        value={percent(success)}
        tone={success === null ? "quiet" : success >= 0.95 ? "ok" : success >= 0.8 ? "warn" : "bad"}
        points={series(points, (point) => point.jobSuccessRatio)}
        about={`${count(now.runsByState["FAILED"] ?? 0)} failed of ${count(runs)} runs, ${count(now.runsByState["RUNNING"] ?? 0)} running`}
      />
      <Tile
        title="Lineage coverage"
        value={percent(now.lineageCoverageRatio.jobs)}
        points={series(points, (point) => point.lineageCoverageRatio.jobs)}
        about={`of jobs; ${percent(now.lineageCoverageRatio.records)} of records`}
      />
      <Tile
        title="Data freshness"
        value={stalest ? duration(stalest.seconds * 1000) : "–"}
        tone="run"
        points={series(points, (point) => point.stalestSeconds)}
        about={
          stalest?.of ? (
            <>
              oldest: <Link to={to.dataset(stalest.of.namespace, stalest.of.name)}><Name text={stalest.of.name} cut /></Link>
            </>
          ) : stalest ? (
            "a dataset that is not listed by name"
          ) : (
            "no dataset was written yet"
          )
        }
      />
      <Tile title="Datasets" value={count(now.datasets)} points={series(points, (point) => point.datasets)} about={`and ${count(now.jobs)} jobs`} />
      <Tile title="Consumer lag" value={now.consumerLag === null ? "–" : compact(now.consumerLag)} tone={now.consumerLag ? "warn" : "ok"} points={series(points, (point) => point.lag)} about="records not read yet" />
      <Tile
        title="Events"
        value={`${compact(now.eventsPerSecond)}/s`}
        points={series(points, (point) => point.events)}
        about={now.ingestSeconds.p99 === null ? "no events yet" : `stored in ${duration((now.ingestSeconds.p50 ?? 0) * 1000)}, slowest ${duration(now.ingestSeconds.p99 * 1000)}`}
      />
      <Tile title="Dead letters and late" value={count(now.deadLettered + now.lateRecords)} tone={now.deadLettered + now.lateRecords ? "warn" : "ok"} about={`${count(now.deadLettered)} dead letters, ${count(now.lateRecords)} late`} />
      <Tile title="Order violations" value={count(now.orderViolations)} tone={now.orderViolations ? "bad" : "ok"} about="records out of order within their key" />
    </div>
  );
}

function OpenAlerts(): ReactNode {
  const resource = useResource<Alerts>("/alerts");
  return (
    <Panel title="Alerts" note={<Link to={to.alerts()}>{resource.state === "ready" ? `all ${count(resource.data.totalCount)}` : "all"}</Link>}>
      <WhenInPanel resource={resource} what="list of alerts">
        {(data) => <OpenAlertList answer={data} />}
      </WhenInPanel>
    </Panel>
  );
}

function OpenAlertList({ answer }: { answer: Alerts }): ReactNode {
  const open = answer.alerts.filter((alert) => alert.state !== "ok");
  const all = openCount(answer);
  if (!open.length) return <p className="quiet pad">{answer.totalCount ? "No alert is firing." : "No alerts are defined."}</p>;
  return (
    <>
      {open.length < all && (
        <p className="quiet pad small">
          Showing {shownOf(open.length, all)}: {stateWords(answer)}.
        </p>
      )}
      <AlertList alerts={open} />
    </>
  );
}

function EventRate(): ReactNode {
  const resource = useResource<EventCount[]>("/stats/lineage-events?period=DAY", SLOW);
  const hours = resource.state === "ready" ? resource.data : [];
  const total = hours.reduce((sum, hour) => sum + hour.start + hour.complete + hour.fail + hour.abort, 0);
  const of = (pick: (hour: EventCount) => number): Point[] => hours.map((hour) => ({ at: Date.parse(hour.startInterval), value: pick(hour) }));
  return (
    <Panel title="Events" note={total ? `${count(total)} in 24 hours` : ""}>
      <WhenInPanel resource={resource} what="count of events">
        {() => (
          <Chart
            label="Events by hour"
            kind="bars"
            series={[
              { name: "started and completed", tone: "accent", points: of((hour) => hour.start + hour.complete) },
              { name: "failed or aborted", tone: "bad", points: of((hour) => hour.fail + hour.abort) },
            ]}
          />
        )}
      </WhenInPanel>
    </Panel>
  );
}

function Failures(): ReactNode {
  // More than are shown, because runs of the checks are removed.
  const resource = useResource<Runs>(`/jobs/runs?state=FAILED&limit=${2 * FAILURES}`, SLOW);
  return (
    <Panel title="Latest failed runs" note={<Link to={to.jobs({ state: "FAILED" })}>failing jobs</Link>}>
      <WhenInPanel resource={resource} what="list of runs" rows={4}>
        {(data) => <FailedRuns runs={data.runs.filter((run) => run.jobVersion?.namespace !== CHECKS).slice(0, FAILURES)} />}
      </WhenInPanel>
    </Panel>
  );
}

function FailedRuns({ runs }: { runs: readonly Run[] }): ReactNode {
  if (!runs.length) return <p className="quiet pad">No failed runs.</p>;
  return (
    <Table label="Failed runs" head={["Run", "Job", "State", "Ended", "Error", ""]}>
      {runs.map((run) => (
        <tr key={run.id}>
          <th scope="row" className="mono">
            <Link to={to.run(run.id)}>{run.id.slice(0, 8)}</Link>
          </th>
          <td>
            {run.jobVersion ? (
              <Link to={to.job(run.jobVersion.namespace, run.jobVersion.name)}>
                <Name text={run.jobVersion.name} cut />
              </Link>
            ) : (
              "–"
            )}
          </td>
          <td>
            <StateBadge state={run.state} />
          </td>
          <td>
            <Time at={run.endedAt} />
          </td>
          <td>
            <Name text={errorOf(run)?.message ?? "no message"} cut />
          </td>
          <td>
            {run.jobVersion && (
              <Link to={to.graph({ node: nodeId("job", run.jobVersion.namespace, run.jobVersion.name), direction: "downstream" })} aria-label="Downstream graph">
                <Icon name="graph" /> downstream
              </Link>
            )}
          </td>
        </tr>
      ))}
    </Table>
  );
}
