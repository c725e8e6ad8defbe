/** Current alerts and past incidents. */
import type { ReactNode } from "react";
import type { Alert, Alerts, Incidents, Namespaces } from "../api/types.ts";
import { SLOW, useResource } from "../api/useResource.ts";
import { STATES, shownOf, stateWords } from "../model/alerts.ts";
import { nameOfNode, shortened, visible } from "../model/names.ts";
import { to } from "../model/route.ts";
import { duration } from "../model/time.ts";
import { Name } from "../ui/Name.tsx";
import { Notice, When, WhenInPanel } from "../ui/States.tsx";
import { Panel, Table, Time } from "../ui/parts.tsx";
import { Link } from "../ui/router.tsx";

export default function AlertsView(): ReactNode {
  const alerts = useResource<Alerts>("/alerts");
  const incidents = useResource<Incidents>("/alerts/incidents?limit=100");
  return (
    <>
      <div className="bar">
        <h1>Alerts</h1>
      </div>
      <When resource={alerts} what="list">
        {(data) =>
          data.alerts.length ? (
            <Panel title="Now" note={countText(data)}>
              <AlertList alerts={data.alerts} />
            </Panel>
          ) : (
            <Notice icon="alert" title="No alerts are defined">
              <p>
                Write rules such as <code>condition: job_run.state == 'FAILED'</code> into a file, and check it with{" "}
                <code>headwater alerts check FILE</code>.
              </p>
            </Notice>
          )
        }
      </When>
      <Panel title="Incidents" note="newest first">
        <WhenInPanel resource={incidents} what="list of incidents" rows={4}>
          {(data) => <IncidentTable incidents={data.incidents} />}
        </WhenInPanel>
      </Panel>
    </>
  );
}

function countText(answer: Alerts): string {
  const words = stateWords(answer);
  return `${shownOf(answer.alerts.length, answer.totalCount)} ${answer.totalCount === 1 ? "alert" : "alerts"}${words && `: ${words}`}`;
}

function IncidentTable({ incidents }: { incidents: Incidents["incidents"] }): ReactNode {
  if (!incidents.length) return <p className="quiet pad">No incidents.</p>;
  return (
    <Table label="Incidents" head={["Alert", "Subject", "Started", "Duration", "State", "Message"]}>
      {incidents.map((incident) => (
        <tr key={incident.id}>
          <th scope="row">
            <Name text={incident.alert} cut />
          </th>
          <td>{incident.subject ? <Subject of={incident.subject} /> : "–"}</td>
          <td>
            <Time at={incident.startedAt} />
          </td>
          <td className="number">{incident.endedAt ? duration(Date.parse(incident.endedAt) - Date.parse(incident.startedAt)) : "–"}</td>
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
  );
}

export function AlertList({ alerts }: { alerts: readonly Alert[] }): ReactNode {
  const sorted = alerts.toSorted((a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state));
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
              {alert.severity && (
                <>
                  <Name text={alert.severity} /> ·{" "}
                </>
              )}
              since <Time at={alert.since} />
            </span>
          </div>
          {alert.summary && <Name text={alert.summary} className="block" />}
          {alert.problem && <Name text={alert.problem} className="block bad" />}
          <div className="line small">
            {alert.condition && <code>{visible(alert.condition)}</code>}
            {alert.value && (
              <span className="quiet">
                value <Name text={alert.value} />
              </span>
            )}
            {alert.channels.length > 0 && (
              <span className="quiet">
                to <Name text={alert.channels.join(", ")} />
              </span>
            )}
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
              {alert.downstreamCount > 8 && ` and ${alert.downstreamCount - 8} more`}
            </p>
          )}
        </li>
      ))}
    </ul>
  );
}

/** The subject of an alert: a node links to its downstream graph. */
function Subject({ of }: { of: string }): ReactNode {
  const spaces = useResource<Namespaces>("/namespaces?limit=1000", SLOW);
  const kind = of.slice(0, of.indexOf(":"));
  if (kind !== "job" && kind !== "dataset") return <Name text={of} cut />;
  const names = spaces.state === "ready" ? spaces.data.namespaces.map((each) => each.name) : [];
  return (
    <Link to={to.graph({ node: of, direction: "downstream" })} title={visible(of)}>
      {kind} <Name text={shortened(nameOfNode(of, names), 60)} />
    </Link>
  );
}

/** A link only for http and https: rules may contain any text. */
function Runbook({ address }: { address: string }): ReactNode {
  if (!/^https?:\/\//i.test(address)) return <Name text={address} className="quiet" />;
  return (
    <a href={address} rel="noreferrer noopener" target="_blank">
      runbook
    </a>
  );
}
