/** Jobs and datasets as they stand in the graph: name, state and freshness in colour and words. */
import type { KeyboardEvent, ReactNode } from "react";
import type { GraphNode } from "../model/graph.ts";
import { onCard } from "../model/cards.ts";
import { visible } from "../model/names.ts";
import { ago, before, count, freshness } from "../model/time.ts";
import { Icon } from "../ui/Icon.tsx";
import { Name } from "../ui/Name.tsx";
import { measure } from "./measure.ts";
import { StateBadge } from "../ui/StateBadge.tsx";

// A name may have 2,000 characters: what tells it apart stands in the first line or two.
const MAX_WHOLE = 400;

/** Where there are several namespaces, each card names its own. */
export const cardSize = (width: number, withNamespace: boolean): { width: number; height: number } => ({ width, height: withNamespace ? 74 : 56 });

interface CardProps {
  node: GraphNode;
  /** The time that is shown, which may be past. */
  now: number;
  past: boolean;
  width: number;
  chosen: boolean;
  start: boolean;
  /** Another one is chosen, and this one is not on its way. */
  faded: boolean;
  withNamespace: boolean;
  reachable: boolean;
  choose: () => void;
  keys: (event: KeyboardEvent) => void;
}

export function NodeCard({ node, now, past, width, chosen, start, faded, withNamespace, reachable, choose, keys }: CardProps): ReactNode {
  const fresh = node.kind === "dataset" ? (node.live ? "fresh" : freshness(node.writtenAt, now)) : undefined;
  const since = past ? before : ago;
  const whole = visible(node.name);
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
          {name === whole ? (
            <Name text={name} cut />
          ) : (
            <>
              <span className="hidden">{whole}</span>
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
              <span className="quiet">{node.lag ? `${count(node.lag)} behind` : node.activeAt ? since(node.activeAt, now) : ""}</span>
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
      {/* For the eye: readers of the screen have the whole name already. */}
      {name !== whole && (
        <span className="whole" aria-hidden="true">
          {whole.length > MAX_WHOLE ? `${whole.slice(0, MAX_WHOLE)}…` : whole}
        </span>
      )}
    </>
  );
}
