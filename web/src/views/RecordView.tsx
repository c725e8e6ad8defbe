/** One record: its ancestry, its impact, and how to replay it. */
import { type FormEvent, type ReactNode, useMemo, useState } from "react";
import type { RecordOfCatalog, ReplayAnswer } from "../api/types.ts";
import { useResource } from "../api/useResource.ts";
import { type Address, addressText, parseAddress } from "../model/address.ts";
import { RECORD_STATES, type RecordJson, plainText, rangeText, recordGraph, valueText } from "../model/records.ts";
import { to } from "../model/route.ts";
import { clock, count } from "../model/time.ts";
import { Name } from "../ui/Name.tsx";
import { Notice, When } from "../ui/States.tsx";
import { MessageText } from "../ui/MessageText.tsx";
import { Command, Facts, Json, Panel, Table, Tabs } from "../ui/parts.tsx";
import { Link, go, useQuery } from "../ui/router.tsx";
import { BatchTrace } from "./BatchTrace.tsx";
import { RecordCanvas } from "./RecordCanvas.tsx";

const RANGES_SHOWN = 20;

type Tab = "ancestry" | "impact" | "replay";
const TABS: readonly (readonly [Tab, string])[] = [
  ["ancestry", "Ancestry"],
  ["impact", "Impact"],
  ["replay", "Replay"],
];

interface Impact extends RecordJson {
  counts: Record<string, number>;
  within_counts: Record<string, number>;
  tables: Record<string, number>;
  tables_within: Record<string, number>;
  lower_bound: boolean;
  cut: string | null;
  behind: Record<string, Record<string, number>>;
  not_indexed: string[];
}

export default function RecordView({ address, text }: { address: Address | null; text: string }): ReactNode {
  const [query, change] = useQuery();
  const tab = (TABS.find(([name]) => name === query.get("tab"))?.[0] ?? "ancestry") as Tab;
  return (
    <div className="recordview">
      <div className="bar">
        <AddressForm text={text} wrong={text !== "" && !address} />
        {address && <Tabs label="Query" tabs={TABS} chosen={tab} choose={(value) => change({ tab: value === "ancestry" ? null : value, chosen: null }, true)} />}
      </div>
      {!address && !text && (
        <Notice icon="record" title="Which record?">
          <p>
            Paste its address: topic, partition and offset, such as <code>visits-reduced/1@42</code>. Every record that a Headwater job wrote can be traced back to its
            sources.
          </p>
        </Notice>
      )}
      {address && tab === "ancestry" && <AncestryPart address={address} />}
      {address && tab === "impact" && <ImpactPart address={address} />}
      {address && tab === "replay" && <ReplayPart address={address} />}
    </div>
  );
}

function AddressForm({ text, wrong }: { text: string; wrong: boolean }): ReactNode {
  const [typed, setTyped] = useState(text);
  const [bad, setBad] = useState(wrong);
  const enter = (event: FormEvent): void => {
    event.preventDefault();
    const found = parseAddress(typed);
    setBad(!found);
    if (found) go(to.record(found));
  };
  return (
    <form className="address" onSubmit={enter}>
      <h1>
        <label htmlFor="address">Record</label>
      </h1>
      <input
        id="address"
        value={typed}
        spellCheck={false}
        autoComplete="off"
        placeholder="visits-reduced/1@42"
        aria-invalid={bad}
        aria-describedby={bad ? "address-problem" : undefined}
        onChange={(event) => {
          setTyped(event.target.value);
          setBad(false);
        }}
      />
      <button type="submit" className="button primary">
        Trace
      </button>
      {bad && (
        <p id="address-problem" className="problem" role="alert">
          Not an address. It is topic/partition@offset, such as visits/0@17.
        </p>
      )}
    </form>
  );
}

const pathOf = (address: Address): string => `/records/${encodeURIComponent(address.topic)}/${address.partition}/${address.offset}`;

function AncestryPart({ address }: { address: Address }): ReactNode {
  const resource = useResource<RecordJson>(`${pathOf(address)}/ancestry`, 0);
  const inCatalog = useResource<RecordOfCatalog>(pathOf(address), 0);
  const batch = inCatalog.state === "ready" ? inCatalog.data : null;
  if (resource.state === "problem" && resource.problem.status === 503 && batch) {
    return (
      <>
        <p className="stale" role="status">
          The record itself cannot be read: {resource.problem.message}. Its batch in the catalog is shown instead.
        </p>
        <BatchTrace record={batch} />
      </>
    );
  }
  return (
    <When
      resource={resource}
      what="record"
      rows={6}
      missing={
        <Notice icon="record" title="There is no such record">
          <p>
            <code>{addressText(address)}</code> is neither in Kafka nor in an archive. <code>headwater topics describe {address.topic}</code> shows the available offsets.
          </p>
        </Notice>
      }
    >
      {(root) => (
        <>
          <Hops root={root} below="parents" />
          {batch && <BatchTrace record={batch} />}
        </>
      )}
    </When>
  );
}

function Hops({ root, below }: { root: RecordJson; below: "parents" | "children" }): ReactNode {
  const [query, change] = useQuery();
  const graph = useMemo(() => recordGraph(root, below), [root, below]);
  const rootId = addressText(root);
  const chosen = graph.nodes.find((node) => node.id === (query.get("chosen") ?? rootId)) ?? graph.nodes[0];
  return (
    <div className="split">
      <RecordCanvas graph={graph} root={rootId} chosen={chosen?.id ?? null} choose={(id) => change({ chosen: id === rootId ? null : id })} />
      {chosen && <RecordDetails record={chosen.record} root={chosen.id === rootId} />}
    </div>
  );
}

function RecordDetails({ record, root }: { record: RecordJson; root: boolean }): ReactNode {
  const address = addressText(record);
  const made = record.job_name !== null;
  return (
    <aside className="panel hop" aria-label={`Record ${address}`}>
      <header>
        <h2>{address}</h2>
        {!root && (
          <Link className="button" to={to.record(record)}>
            Open record
          </Link>
        )}
      </header>
      <Facts
        rows={[
          ["state", `${RECORD_STATES[record.state] ?? record.state}${record.reason ? `: ${record.reason}` : ""}`],
          ["made by", made ? <Name key="j" text={plainText(record.job_name)} /> : record.batch_version === null ? "no job: a source record" : "not known"],
          ...(made
            ? ([
                ["job version", <Name key="v" text={plainText(record.job_version) || "–"} />],
                ["batch", record.batch_version ?? "–"],
                ["run", record.run_id ? <Link key="r" to={to.run(record.run_id)}>{record.run_id}</Link> : "–"],
                ["record id", record.record_id ?? "–"],
              ] as const)
            : []),
          ["written", record.timestamp === null ? "–" : clock(record.timestamp)],
          ...(record.unlisted ? ([["parents not listed", count(record.unlisted)]] as const) : []),
          ...(record.ranges.length
            ? ([
                [
                  "parents within",
                  <span key="w">
                    {record.ranges.slice(0, RANGES_SHOWN).map((range) => (
                      <span key={rangeText(range)} className="block">
                        <Name text={rangeText(range)} />
                      </span>
                    ))}
                    {record.ranges.length > RANGES_SHOWN && `and ${count(record.ranges.length - RANGES_SHOWN)} more ranges`}
                  </span>,
                ],
              ] as const)
            : []),
          ...(record.more_parents ? ([["more parents", "there may be others, which are not known"]] as const) : []),
          ...(record.within ? ([["certainty", "may be made from the record: within ranges"]] as const) : []),
        ]}
      />
      {record.value !== undefined && (
        <>
          <h3>Value</h3>
          <Json value={valueText(record.value)} label={`Value of ${address}`} />
        </>
      )}
    </aside>
  );
}

function ImpactPart({ address }: { address: Address }): ReactNode {
  const resource = useResource<Impact>(`${pathOf(address)}/impact`, 0);
  return (
    <When resource={resource} what="record" rows={6}>
      {(found) => {
        const rows = [
          ...Object.entries(found.counts).map(([name, number]) => ["topic", name, number] as const),
          ...Object.entries(found.tables).map(([name, number]) => ["table", name, number] as const),
        ];
        const within = [
          ...Object.entries(found.within_counts).map(([name, number]) => ["topic, within ranges", name, number] as const),
          ...Object.entries(found.tables_within).map(([name, number]) => ["table, within ranges", name, number] as const),
        ];
        const total = rows.reduce((sum, [, , number]) => sum + number, 0);
        const possible = within.reduce((sum, [, , number]) => sum + number, 0);
        const lag = Object.entries(found.behind).flatMap(([topic, of]) => Object.entries(of).map(([partition, number]) => `${topic}/${partition} by ${count(number)}`));
        return (
          <>
            <Panel title={total === 0 ? "Nothing was made from it" : `${count(total)}${found.lower_bound ? " or more" : ""} ${total === 1 ? "was" : "were"} made from it`} note={[found.cut, possible ? `${count(possible)} more may be: within ranges` : null].filter(Boolean).join("; ") || undefined}>
              {rows.length + within.length ? (
                <Table label="Counts" head={["Where", "Kind", "Records or rows"]}>
                  {[...rows, ...within].map(([kind, name, number]) => (
                    <tr key={`${kind} ${name}`}>
                      <th scope="row">
                        <Name text={name} cut />
                      </th>
                      <td>{kind}</td>
                      <td className="number">
                        {count(number)}
                        {found.lower_bound && "+"}
                      </td>
                    </tr>
                  ))}
                </Table>
              ) : (
                <p className="quiet pad">No indexed record was made from this record.</p>
              )}
              {(lag.length > 0 || found.not_indexed.length > 0) && (
                <p className="quiet pad small">
                  {lag.length > 0 && `The index lags: ${lag.slice(0, 4).join(", ")}. `}
                  {found.not_indexed.length > 0 && `Not indexed: ${found.not_indexed.slice(0, 6).join(", ")}${found.not_indexed.length > 6 ? " …" : ""}.`}
                </p>
              )}
            </Panel>
            {(found.children ?? []).length > 0 && <Hops root={found} below="children" />}
          </>
        );
      }}
    </When>
  );
}

function ReplayPart({ address }: { address: Address }): ReactNode {
  const resource = useResource<ReplayAnswer>(`${pathOf(address)}/replay`, 0);
  return (
    <When resource={resource} what="record">
      {(found) => (
        <>
          {found.command && (
            <Panel title="Command" note={found.complete ? "shows the plan; runs it without --dry-run" : "fill in the location of your job's transform"}>
              <div className="pad">
                <Command line={found.command} label="Command" />
                {found.note && <p className="hint"><MessageText text={found.note} /></p>}
              </div>
            </Panel>
          )}
          {found.dryRun && (
            <Panel title="Dry run" note={found.dryRun.state === "done" ? "already done: nothing would be written" : found.dryRun.state}>
              <Facts
                rows={[
                  ["replay", found.dryRun.replayId ?? "depends on the name of the transform"],
                  ["records", count(found.dryRun.records)],
                  [
                    "offsets",
                    <span key="o">
                      {found.dryRun.offsets.map((range) => (
                        <span key={`${range.partition} ${range.first}`} className="block">
                          {found.dryRun?.topic}/{range.partition}: {range.first === range.last ? range.first : `${range.first} to ${range.last}`}
                        </span>
                      ))}
                    </span>,
                  ],
                  ["target", <Name key="t" text={found.dryRun.target} />],
                  ["job version", found.dryRun.jobVersion],
                  ["files", `${found.dryRun.files} of the archive, version ${found.dryRun.archiveVersion}`],
                  ["existing results", found.dryRun.resultsThere === null ? "not counted: too slow without an index" : `${count(found.dryRun.resultsThere)} ${found.dryRun.resultsThere === 1 ? "result" : "results"} of these records`],
                  ...Object.entries(found.dryRun.behind).map(([partition, number]) => [`partition ${partition}`, `the newest ${count(number)} are not archived yet`] as const),
                ]}
              />
            </Panel>
          )}
          {found.refused && (
            <Notice icon="alert" title={found.command ? "The dry run was refused" : "There is nothing to replay"}>
              <p>
                <MessageText text={found.refused.message} />
              </p>
              {found.refused.hint && (
                <p className="hint">
                  <MessageText text={found.refused.hint} />
                </p>
              )}
            </Notice>
          )}
        </>
      )}
    </When>
  );
}
