/** Alerts as they stand, and what happened. */
import type { ReactNode } from "react";
import { useAnswer } from "../api/useAnswer.ts";
import type { Alert, Alerts, Incidents } from "../api/watch.ts";
import { shortened, visible } from "../model/names.ts";
import { to } from "../model/route.ts";
import { duration } from "../model/time.ts";
import { Name } from "../ui/Name.tsx";
import { Notice, When } from "../ui/States.tsx";
import { Panel, Table, Time } from "../ui/parts.tsx";
import { Link } from "../ui/router.tsx";

const ORDER: Alert["state"][] = ["firing", "error", "pending", "no data", "ok"];

export const NO_ALERTS = (
  <Notice icon="alert" title="This service evaluates no alerts">
    <p>
      A newer service does: rules are a file, and <code>headwater alerts check FILE</code> reads it.
    </p>
  </Notice>
);

export default function AlertsView(): ReactNode {
  const alerts = useAnswer<Alerts>("/alerts");
  const incidents = useAnswer<Incidents>("/alerts/incidents?limit=100");
  return (
    <>
      <div className="bar">
        <h1>Alerts</h1>
      </div>
      <When asked={alerts} what="list" missing={NO_ALERTS}>
        {(data) =>
          data.alerts.length ? (
            <Panel title="Now" aside={`${data.totalCount} alerts`}>
              <AlertList alerts={data.alerts} />
            </Panel>
          ) : (
            <Notice icon="alert" title="No alert is defined">
              <p>
                Write rules such as <code>condition: job_run.state == 'FAILED'</code> into a file, and check it with{" "}
                <code>headwater alerts check FILE</code>.
              </p>
            </Notice>
          )
        }
      </When>
      {incidents.state === "ready" && (
        <Panel title="Incidents" aside="newest first">
          {incidents.data.incidents.length ? (
            <Table label="Incidents" head={["Alert", "About", "Began", "Lasted", "State", "Message"]}>
              {incidents.data.incidents.map((incident) => (
                <tr key={incident.id}>
                  <th scope="row">
                    <Name text={incident.alert} cut />
                  </th>
                  <td>{incident.subject ? <Subject of={incident.subject} /> : "–"}</td>
                  <td>
                    <Time at={incident.startedAt} />
                  </td>
                  <td className="number">
                    {incident.endedAt ? duration(Date.parse(incident.endedAt) - Date.parse(incident.startedAt)) : "–"}
                  </td>
                  <td>
                    <span className="badge" data-state={incident.state === "open" ? "firing" : "ok"}>
                      <i aria-hidden="true" />
                      {incident.state}
                    </span>
                  </td>
                  <td>
                    <Name text={incident.message} className="wrap" lines />
                  </td>
                </tr>
              ))}
            </Table>
          ) : (
            <p className="quiet pad">Nothing has happened.</p>
          )}
        </Panel>
      )}
    </>
  );
}

export function AlertList({ alerts }: { alerts: readonly Alert[] }): ReactNode {
  const sorted = alerts.toSorted((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state));
  return (
    <ul className="alerts" aria-label="Alerts">
      {sorted.map((alert) => (
        <li key={`${alert.name} ${alert.subject ?? ""}`} data-state={alert.state}>
          <div className="line">
            <span className="badge" data-state={alert.state}>
              <i aria-hidden="true" />
              {alert.state}
            </span>
            <Name text={alert.name} cut className="strong" />
            {alert.subject && <Subject of={alert.subject} />}
            <span className="quiet push">
              {alert.severity && `${alert.severity} · `}since <Time at={alert.since} />
            </span>
          </div>
          {alert.summary && <Name text={alert.summary} className="block" />}
          {alert.problem && <Name text={alert.problem} className="block bad" />}
          <div className="line small">
            {alert.condition && <code>{alert.condition}</code>}
            {alert.value !== null && alert.value !== undefined && <span className="quiet">found {String(alert.value)}</span>}
            {alert.channels.length > 0 && <span className="quiet">to {alert.channels.join(", ")}</span>}
            {alert.runbook && <Runbook address={alert.runbook} />}
          </div>
          {alert.downstream.length > 0 && (
            <p className="small">
              Downstream:{" "}
              {alert.downstream.slice(0, 8).map((name, at) => (
                <span key={name}>
                  {at > 0 && ", "}
                  <Subject of={name} />
                </span>
              ))}
              {(alert.downstreamCount ?? alert.downstream.length) > 8 && ` and ${(alert.downstreamCount ?? alert.downstream.length) - 8} more`}
            </p>
          )}
        </li>
      ))}
    </ul>
  );
}

/** What an alert is about: a node leads to what lies behind it in the graph. */
function Subject({ of }: { of: string }): ReactNode {
  const [kind, ...rest] = of.split(":");
  if ((kind !== "job" && kind !== "dataset") || rest.length < 2) return <Name text={of} cut />;
  return (
    <Link to={to.graph({ node: of, direction: "downstream" })} title={visible(of)}>
      {kind} <Name text={shortened(rest.at(-1) ?? "", 60)} />
    </Link>
  );
}

/** A link only where it leads to the web: rules are written by others. */
function Runbook({ address }: { address: string }): ReactNode {
  if (!/^https?:\/\//i.test(address)) return <Name text={address} className="quiet" />;
  return (
    <a href={address} rel="noreferrer noopener" target="_blank">
      runbook
    </a>
  );
}
