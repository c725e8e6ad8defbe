/** Jobs and datasets in the graph: name, state and freshness in colour and in words. */
import type { KeyboardEvent, ReactNode } from "react";
import { type GraphNode, type JobNode, writtenNow } from "../model/graph.ts";
import { onCard } from "../model/cards.ts";
import { sideText } from "../model/folding.ts";
import { visible } from "../model/names.ts";
import { ago, before, count, freshness } from "../model/time.ts";
import { Icon } from "../ui/Icon.tsx";
import { Name } from "../ui/Name.tsx";
import { measure } from "./measure.ts";
import { StateBadge } from "../ui/StateBadge.tsx";

// A name may have 2,000 characters; the first lines are enough to identify it.
const MAX_TOOLTIP = 400;

// Must match `.side`.
const SIDE_HEIGHT = 26;

/** If there are several namespaces, each card shows its own; a job with dead letter, late or parents topics has a line for them. */
export function cardSize(node: GraphNode, width: number, withNamespace: boolean): { width: number; height: number } {
  const side = node.kind === "job" && node.side.length > 0;
  return { width, height: (withNamespace ? 74 : 56) + (side ? SIDE_HEIGHT : 0) };
}

interface CardProps {
  node: GraphNode;
  /** The time for which the graph is shown, which may be in the past. */
  now: number;
  past: boolean;
  width: number;
  chosen: boolean;
  start: boolean;
  /** Another node is chosen, and this one is not on its path. */
  faded: boolean;
  withNamespace: boolean;
  reachable: boolean;
  /** Whether the dead letter, late and parents topics of a job are nodes. */
  open: boolean;
  toggle: () => void;
  choose: () => void;
  keys: (event: KeyboardEvent) => void;
}

export function NodeCard({ node, now, past, width, chosen, start, faded, withNamespace, reachable, open, toggle, choose, keys }: CardProps): ReactNode {
  const live = node.kind === "dataset" && writtenNow(node, now);
  const fresh = node.kind === "dataset" ? freshness(node.writtenAt, now) : undefined;
  const since = past ? before : ago;
  const fullName = visible(node.name);
  const name = onCard(node.name, width, measure);
  return (
    <>
      <button
        type="button"
        className="card"
        data-kind={node.kind}
        data-node={node.id}
        data-state={node.kind === "job" ? (node.state ?? "NONE") : undefined}
        data-fresh={fresh}
        data-live={(node.kind === "job" ? node.streaming && node.state === "RUNNING" : live) ? "" : undefined}
        data-faded={faded ? "" : undefined}
        data-start={start ? "" : undefined}
        data-side={node.kind === "job" && node.side.length > 0 ? "" : undefined}
        aria-pressed={chosen}
        tabIndex={reachable ? 0 : -1}
        onClick={choose}
        onKeyDown={keys}
      >
        <span className="title">
          <Icon name={node.kind} />
          {name === fullName ? (
            <Name text={name} cut />
          ) : (
            <>
              <span className="hidden">{fullName}</span>
              <bdi className="name cut" aria-hidden="true">
                {name}
              </bdi>
            </>
          )}
        </span>
        <span className="under">
          {node.kind === "job" ? (
            <>
              <StateBadge state={node.state} streaming={node.streaming} />
              <span className="quiet">{node.lag ? `lag ${count(node.lag)}` : node.activeAt ? since(node.activeAt, now) : ""}</span>
            </>
          ) : (
            <span className="fresh">
              <i aria-hidden="true" />
              {live ? `written ${past ? "then" : "now"}` : node.writtenAt ? `written ${since(node.writtenAt, now)}` : "no write seen"}
            </span>
          )}
        </span>
        {withNamespace && <Name text={node.namespace} cut className="space" />}
      </button>
      {/* Visual tooltip: screen readers already have the full name. */}
      {name !== fullName && (
        <span className="fullname" aria-hidden="true">
          {fullName.length > MAX_TOOLTIP ? `${fullName.slice(0, MAX_TOOLTIP)}…` : fullName}
        </span>
      )}
      {node.kind === "job" && node.side.length > 0 && <SideTopics job={node} open={open} faded={faded} reachable={reachable} toggle={toggle} />}
    </>
  );
}

interface SideProps {
  job: JobNode;
  open: boolean;
  faded: boolean;
  reachable: boolean;
  toggle: () => void;
}

function SideTopics({ job, open, faded, reachable, toggle }: SideProps): ReactNode {
  return (
    <button
      type="button"
      className="side"
      aria-expanded={open}
      data-faded={faded ? "" : undefined}
      tabIndex={reachable ? 0 : -1}
      title={job.side.map((topic) => visible(topic.name.slice(0, MAX_TOOLTIP))).join("\n")}
      onClick={toggle}
    >
      <span aria-hidden="true">{open ? "−" : "+"}</span> {sideText(job)}
      <span className="hidden">of {visible(job.name)}</span>
    </button>
  );
}
