/** Jobs and datasets in the graph: name, state and freshness in colour and in words. */
import type { KeyboardEvent, ReactNode } from "react";
import type { GraphNode } from "../model/graph.ts";
import { onCard } from "../model/cards.ts";
import { visible } from "../model/names.ts";
import { ago, before, count, freshness } from "../model/time.ts";
import { Icon } from "../ui/Icon.tsx";
import { Name } from "../ui/Name.tsx";
import { measure } from "./measure.ts";
import { StateBadge } from "../ui/StateBadge.tsx";

// A name may have 2,000 characters; the first lines are enough to identify it.
const MAX_TOOLTIP = 400;

/** If there are several namespaces, each card shows its own. */
export const cardSize = (width: number, withNamespace: boolean): { width: number; height: number } => ({ width, height: withNamespace ? 74 : 56 });

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
  choose: () => void;
  keys: (event: KeyboardEvent) => void;
}

export function NodeCard({ node, now, past, width, chosen, start, faded, withNamespace, reachable, choose, keys }: CardProps): ReactNode {
  const fresh = node.kind === "dataset" ? (node.live ? "fresh" : freshness(node.writtenAt, now)) : undefined;
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
        data-live={(node.kind === "job" ? node.streaming && node.state === "RUNNING" : node.live) ? "" : undefined}
        data-faded={faded ? "" : undefined}
        data-start={start ? "" : undefined}
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
              {node.live ? `written ${past ? "then" : "now"}` : node.writtenAt ? `written ${since(node.writtenAt, now)}` : "no write seen"}
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
    </>
  );
}
