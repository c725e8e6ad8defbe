/** Jobs and datasets as they stand in the graph: name, state and freshness in colour and words. */
import type { KeyboardEvent, ReactNode } from "react";
import type { GraphNode } from "../model/graph.ts";
import { ago, count, freshness } from "../model/time.ts";
import { Icon } from "../ui/Icon.tsx";
import { Name } from "../ui/Name.tsx";
import { StateBadge } from "../ui/StateBadge.tsx";

/** Where there are several namespaces, each card names its own. */
export const cardSize = (withNamespace: boolean): { width: number; height: number } => ({ width: 204, height: withNamespace ? 74 : 56 });

interface CardProps {
  node: GraphNode;
  now: number;
  chosen: boolean;
  start: boolean;
  /** Another one is chosen, and this one is not on its way. */
  faded: boolean;
  withNamespace: boolean;
  reachable: boolean;
  choose: () => void;
  keys: (event: KeyboardEvent) => void;
}

export function NodeCard({ node, now, chosen, start, faded, withNamespace, reachable, choose, keys }: CardProps): ReactNode {
  const fresh = node.kind === "dataset" ? (node.live ? "fresh" : freshness(node.writtenAt, now)) : undefined;
  return (
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
        <Name text={node.name} cut />
      </span>
      <span className="under">
        {node.kind === "job" ? (
          <>
            <StateBadge state={node.state} streaming={node.streaming} />
            <span className="quiet">{node.lag ? `${count(node.lag)} behind` : node.activeAt ? ago(node.activeAt, now) : ""}</span>
          </>
        ) : (
          <span className="fresh">
            <i aria-hidden="true" />
            {node.live ? "written now" : node.writtenAt ? `written ${ago(node.writtenAt, now)}` : "no write seen"}
          </span>
        )}
      </span>
      {withNamespace && <Name text={node.namespace} cut className="space" />}
    </button>
  );
}
