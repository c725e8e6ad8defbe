/** One record: where it comes from, what came of it, and how to make it again. */
import { type FormEvent, type ReactNode, useMemo, useState } from "react";
import type { RecordOfCatalog, ReplayAnswer } from "../api/shapes.ts";
import { useAnswer } from "../api/useAnswer.ts";
import { type Address, addressText, parseAddress } from "../model/address.ts";
import { RECORD_STATES, type RecordJson, plainText, recordGraph, valueText } from "../model/records.ts";
import { to } from "../model/route.ts";
import { clock, count } from "../model/time.ts";
import { Name } from "../ui/Name.tsx";
import { Notice, When } from "../ui/States.tsx";
import { Words } from "../ui/Words.tsx";
import { Command, Facts, Json, Panel, Table, Tabs } from "../ui/parts.tsx";
import { Link, go, useQuery } from "../ui/router.tsx";
import { BatchTrace } from "./BatchTrace.tsx";
import { RecordCanvas } from "./RecordCanvas.tsx";

type Tab = "ancestry" | "impact" | "replay";
const TABS: readonly (readonly [Tab, string])[] = [
  ["ancestry", "Ancestry"],
  ["impact", "Impact"],
  ["replay", "Replay"],
];

interface Impact extends RecordJson {
  counts: Record<string, number>;
  tables: Record<string, number>;
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
        {address && <Tabs label="Question" tabs={TABS} chosen={tab} choose={(value) => change({ tab: value === "ancestry" ? null : value, chosen: null }, true)} />}
      </div>
      {!address && !text && (
        <Notice icon="record" title="Which record?">
          <p>
            Paste its address: topic, partition and offset, such as <code>visits-reduced/1@42</code>. Every record that a Headwater job wrote leads back to its
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
  const asked = useAnswer<RecordJson>(`${pathOf(address)}/ancestry`, 0);
  const told = useAnswer<RecordOfCatalog>(pathOf(address), 0);
  const batch = told.state === "ready" ? told.data : null;
  if (asked.state === "problem" && asked.problem.status === 503 && batch) {
    return (
      <>
        <p className="late" role="status">
          The record itself can't be read: {asked.problem.message}. What its batch has told is shown instead.
        </p>
        <BatchTrace record={batch} />
      </>
    );
  }
  return (
    <When
      asked={asked}
      what="record"
      rows={6}
      missing={
        <Notice icon="record" title="There is no such record">
          <p>
            Neither Kafka nor an archive holds <code>{addressText(address)}</code>. <code>headwater topics describe {address.topic}</code> shows which offsets there are.
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
            Go to it
          </Link>
        )}
      </header>
      <Facts
        rows={[
          ["state", `${RECORD_STATES[record.state] ?? record.state}${record.reason ? `: ${record.reason}` : ""}`],
          ["made by", made ? <Name key="j" text={plainText(record.job_name)} /> : "no job: a source record"],
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
  const asked = useAnswer<Impact>(`${pathOf(address)}/impact`, 0);
  return (
    <When asked={asked} what="record" rows={6}>
      {(found) => {
        const rows = [
          ...Object.entries(found.counts).map(([name, number]) => ["topic", name, number] as const),
          ...Object.entries(found.tables).map(([name, number]) => ["table", name, number] as const),
        ];
        const total = rows.reduce((sum, [, , number]) => sum + number, 0);
        const behind = Object.entries(found.behind).flatMap(([topic, of]) => Object.entries(of).map(([partition, number]) => `${topic}/${partition} by ${count(number)}`));
        return (
          <>
            <Panel title={total === 0 ? "Nothing was made from it" : `${count(total)}${found.lower_bound ? " or more" : ""} ${total === 1 ? "was" : "were"} made from it`} aside={found.cut ?? undefined}>
              {rows.length ? (
                <Table label="Counts" head={["Where", "Kind", "Records or rows"]}>
                  {rows.map(([kind, name, number]) => (
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
                <p className="quiet pad">Nothing that is indexed was made from this record.</p>
              )}
              {(behind.length > 0 || found.not_indexed.length > 0) && (
                <p className="quiet pad small">
                  {behind.length > 0 && `The index is behind: ${behind.slice(0, 4).join(", ")}. `}
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
  const asked = useAnswer<ReplayAnswer>(`${pathOf(address)}/replay`, 0);
  return (
    <When asked={asked} what="record">
      {(found) => (
        <>
          {found.command && (
            <Panel title="The command" aside={found.complete ? "shows the plan; without --dry-run it is done" : "fill in the place of your job's logic"}>
              <div className="pad">
                <Command line={found.command} label="Command" />
                {found.note && <p className="hint"><Words text={found.note} /></p>}
              </div>
            </Panel>
          )}
          {found.dryRun && (
            <Panel title="What the dry run says" aside={found.dryRun.state === "done" ? "done before: nothing would be written" : found.dryRun.state}>
              <Facts
                rows={[
                  ["replay", found.dryRun.replayId ?? "depends on the logic's name"],
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
                  ["there already", found.dryRun.resultsThere === null ? "not counted: it takes too long without an index" : `${count(found.dryRun.resultsThere)} ${found.dryRun.resultsThere === 1 ? "result" : "results"} of these records`],
                  ...Object.entries(found.dryRun.behind).map(([partition, number]) => [`partition ${partition}`, `the archive lacks the newest ${count(number)}`] as const),
                ]}
              />
            </Panel>
          )}
          {found.refused && (
            <Notice icon="alert" title={found.command ? "The dry run refuses" : "There is nothing to replay"}>
              <p>
                <Words text={found.refused.message} />
              </p>
              {found.refused.hint && (
                <p className="hint">
                  <Words text={found.refused.hint} />
                </p>
              )}
            </Notice>
          )}
        </>
      )}
    </When>
  );
}
