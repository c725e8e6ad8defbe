/** Records as a graph: each is a card with job, version, batch, time and the start of its value. */
import { type KeyboardEvent, type ReactNode, useEffect, useMemo, useRef } from "react";
import { Canvas, type CanvasHandle } from "../canvas/Canvas.tsx";
import { useLayout } from "../canvas/useLayout.ts";
import { neighbour } from "../canvas/walk.ts";
import { RECORD_STATES, type RecordGraph, plainText, valueText } from "../model/records.ts";
import { clock } from "../model/time.ts";
import { Icon } from "../ui/Icon.tsx";
import { Name } from "../ui/Name.tsx";
import { Loading } from "../ui/States.tsx";

const WIDTH = 252;
const HEIGHT = { bare: 76, withValue: 104 };
const VALUE_SHOWN = 90;

interface Props {
  graph: RecordGraph;
  root: string;
  chosen: string | null;
  choose: (id: string) => void;
}

export function RecordCanvas({ graph, root, chosen, choose }: Props): ReactNode {
  const handle = useRef<CanvasHandle>(null);
  const wanted = useRef<string | null>(null);
  const boxes = useMemo(
    () => graph.nodes.map(({ id, record }) => ({ id, width: WIDTH, height: record.value === undefined ? HEIGHT.bare : HEIGHT.withValue })),
    [graph],
  );
  const layout = useLayout(boxes, graph.edges);
  useEffect(() => {
    const element = wanted.current ? document.querySelector<HTMLElement>(`[data-node="${CSS.escape(wanted.current)}"]`) : null;
    if (element) {
      element.focus({ preventScroll: true });
      wanted.current = null;
    }
  });
  if (!layout) return <Loading what="records" rows={6} />;
  const byId = new Map(graph.nodes.map((node) => [node.id, node.record]));
  const keys = (event: KeyboardEvent, id: string): void => {
    const next = neighbour(layout, id, event.key);
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    wanted.current = next;
    handle.current?.show(next);
    choose(next);
  };
  return (
    <Canvas
      label={`${graph.nodes.length} records, sources on the left. Arrow keys move.`}
      layout={layout}
      focus={root}
      handle={handle}
      edgeState={(route) => (route.from === chosen || route.to === chosen ? "lit" : undefined)}
      node={(placed) => {
        const record = byId.get(placed.id);
        if (!record) return null;
        return (
          <button
            type="button"
            className="card recordcard"
            data-node={placed.id}
            data-record={record.state}
            data-start={placed.id === root ? "" : undefined}
            aria-pressed={placed.id === chosen}
            tabIndex={placed.id === (chosen ?? root) ? 0 : -1}
            onClick={() => choose(placed.id)}
            onKeyDown={(event) => keys(event, placed.id)}
          >
            <span className="title">
              <Icon name="record" />
              <Name text={placed.id} cut />
            </span>
            <span className="under">
              {record.job_name === null ? (
                <span>{record.batch_version === null ? "source record" : "job not known"}</span>
              ) : (
                <Name text={`${plainText(record.job_name)} ${plainText(record.job_version)}, batch ${record.batch_version ?? "–"}`} cut />
              )}
            </span>
            <span className="under quiet">
              {record.within && <b className="recordstate">may be made from it </b>}
              {record.state !== "found" && <b className="recordstate">{RECORD_STATES[record.state] ?? record.state}</b>}
              {record.timestamp !== null && clock(record.timestamp)}
            </span>
            {record.value !== undefined && <Name text={valueText(record.value).slice(0, VALUE_SHOWN)} cut className="value" />}
          </button>
        );
      }}
    >
      <div className="legend">
        <span>
          {graph.nodes.length} {graph.nodes.length === 1 ? "record" : "records"}, left to right
        </span>
        {graph.cut > 0 && <strong>{graph.cut} of them have more that are not shown.</strong>}
      </div>
    </Canvas>
  );
}
