/** The overview: four figures, what is wrong now, and how it went over the last day. */
import type { ReactNode } from "react";
import type { Alerts, EventCount, Jobs, MetricsHistory, MetricsNow, MetricsPoint, Run, Runs } from "../api/shapes.ts";
import { SLOW, useAnswer } from "../api/useAnswer.ts";
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

// Where `doctor` sees events arrive: no run of anybody's pipeline.
const CHECKS = "headwater-checks";
const FAILURES = 8;

export default function DashboardView(): ReactNode {
  const jobs = useAnswer<Jobs>("/jobs?limit=1", SLOW);
  const now = useAnswer<MetricsNow>("/metrics/now");
  const history = useAnswer<MetricsHistory>("/metrics/history?hours=24", SLOW);
  if (jobs.state === "problem") return <ProblemNotice problem={jobs.problem} again={jobs.again} what="overview" />;
  const empty = jobs.state === "ready" && jobs.data.totalCount === 0;
  const points = history.state === "ready" ? history.data.points : [];
  return (
    <>
      <div className="bar">
        <h1>Overview</h1>
        <p className="quiet push">the last 24 hours</p>
      </div>
      {empty && (
        <Notice icon="graph" title="Nothing has been told yet">
          <p>
            Point jobs at this service with <code>MARQUEZ_URL</code>, or run <code>make demo</code>. Everything appears here as its events arrive; nothing has to be loaded again.
          </p>
        </Notice>
      )}
      <When asked={now} what="figures">
        {(data) => <Figures now={data} points={points} />}
      </When>
      <OpenAlerts />
      <div className="columns2">
        <EventRate />
        <Panel title="Behind" aside={now.state === "ready" && now.data.consumerLag !== null ? `${count(now.data.consumerLag)} records now` : ""}>
          <WhenInPanel asked={history} what="course of the day">
            {() => <Chart label="Records that wait to be read" series={[{ name: "lag", tone: "warn", points: series(points, (point) => point.lag) }]} />}
          </WhenInPanel>
        </Panel>
      </div>
      <div className="columns2">
        <Panel title="Success and coverage">
          <WhenInPanel asked={history} what="course of the day">
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
          <WhenInPanel asked={history} what="course of the day">
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

function Figures({ now, points }: { now: MetricsNow; points: readonly MetricsPoint[] }): ReactNode {
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
            "one of the datasets that are not told by name"
          ) : (
            "no dataset was written yet"
          )
        }
      />
      <Tile title="Datasets" value={count(now.datasets)} points={series(points, (point) => point.datasets)} about={`and ${count(now.jobs)} jobs`} />
      <Tile title="Behind" value={now.consumerLag === null ? "–" : compact(now.consumerLag)} tone={now.consumerLag ? "warn" : "ok"} points={series(points, (point) => point.lag)} about="records wait to be read" />
      <Tile
        title="Events"
        value={`${compact(now.eventsPerSecond)}/s`}
        points={series(points, (point) => point.events)}
        about={now.ingestSeconds.p99 === null ? "none were taken yet" : `stored in ${duration((now.ingestSeconds.p50 ?? 0) * 1000)}, slowest ${duration(now.ingestSeconds.p99 * 1000)}`}
      />
      <Tile title="Set aside" value={count(now.deadLettered + now.lateRecords)} tone={now.deadLettered + now.lateRecords ? "warn" : "ok"} about={`${count(now.deadLettered)} dead letters, ${count(now.lateRecords)} late`} />
      <Tile title="Order violations" value={count(now.orderViolations)} tone={now.orderViolations ? "bad" : "ok"} about="records out of the order of their key" />
    </div>
  );
}

function OpenAlerts(): ReactNode {
  const asked = useAnswer<Alerts>("/alerts");
  return (
    <Panel title="Alerts" aside={<Link to={to.alerts()}>{asked.state === "ready" ? `all ${count(asked.data.totalCount)}` : "all"}</Link>}>
      <WhenInPanel asked={asked} what="list of alerts">
        {(data) => <OpenOnes answer={data} />}
      </WhenInPanel>
    </Panel>
  );
}

function OpenOnes({ answer }: { answer: Alerts }): ReactNode {
  const open = answer.alerts.filter((alert) => alert.state !== "ok");
  const all = openCount(answer);
  if (!open.length) return <p className="quiet pad">{answer.totalCount ? "All is well: none of the alerts fires." : "No alert is defined."}</p>;
  return (
    <>
      {open.length < all && (
        <p className="quiet pad small">
          {shownOf(open.length, all)} are shown: {stateWords(answer)}.
        </p>
      )}
      <AlertList alerts={open} />
    </>
  );
}

function EventRate(): ReactNode {
  const asked = useAnswer<EventCount[]>("/stats/lineage-events?period=DAY", SLOW);
  const hours = asked.state === "ready" ? asked.data : [];
  const total = hours.reduce((sum, hour) => sum + hour.start + hour.complete + hour.fail + hour.abort, 0);
  const of = (pick: (hour: EventCount) => number): Point[] => hours.map((hour) => ({ at: Date.parse(hour.startInterval), value: pick(hour) }));
  return (
    <Panel title="Events" aside={total ? `${count(total)} in 24 hours` : ""}>
      <WhenInPanel asked={asked} what="count of events">
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
  // Some more than are shown: those of the checks are left out.
  const asked = useAnswer<Runs>(`/jobs/runs?state=FAILED&limit=${2 * FAILURES}`, SLOW);
  return (
    <Panel title="Latest failed runs" aside={<Link to={to.jobs({ state: "FAILED" })}>jobs that fail</Link>}>
      <WhenInPanel asked={asked} what="list of runs" rows={4}>
        {(data) => <FailedRuns runs={data.runs.filter((run) => run.jobVersion?.namespace !== CHECKS).slice(0, FAILURES)} />}
      </WhenInPanel>
    </Panel>
  );
}

function FailedRuns({ runs }: { runs: readonly Run[] }): ReactNode {
  if (!runs.length) return <p className="quiet pad">No run has failed.</p>;
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
            <Name text={errorOf(run)?.message ?? "no message was sent"} cut />
          </td>
          <td>
            {run.jobVersion && (
              <Link to={to.graph({ node: nodeId("job", run.jobVersion.namespace, run.jobVersion.name), direction: "downstream" })} aria-label="What lies downstream">
                <Icon name="graph" /> downstream
              </Link>
            )}
          </td>
        </tr>
      ))}
    </Table>
  );
}
