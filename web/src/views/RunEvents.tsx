/** The OpenLineage events of a run, as they were sent; requested only on demand. */
import { type ReactNode, useState } from "react";
import { Problem, requestText } from "../api/client.ts";
import { elementsOf, indented } from "../model/jsonText.ts";
import { visible } from "../model/names.ts";
import { clock, count } from "../model/time.ts";
import { MessageText } from "../ui/MessageText.tsx";
import { Panel } from "../ui/parts.tsx";

const PAGE = 20;
// A larger event is cut: a browser takes seconds to lay out megabytes of text.
const MAX_CHARACTERS = 200_000;

interface Loaded {
  events: string[];
  total: number;
}

export function RunEvents({ id }: { id: string }): ReactNode {
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const load = async (): Promise<void> => {
    setBusy(true);
    try {
      const text = await requestText(`/events/lineage?runId=${encodeURIComponent(id)}&limit=${PAGE}&offset=${loaded?.events.length ?? 0}`);
      const { totalCount } = JSON.parse(text) as { totalCount: number };
      setLoaded({ events: [...(loaded?.events ?? []), ...elementsOf(text, "events")], total: totalCount });
      setProblem(null);
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(0, String(error)));
    }
    setBusy(false);
  };
  const more = loaded === null || loaded.events.length < loaded.total;
  return (
    <Panel title="Events" note={loaded ? `${count(loaded.events.length)} of ${count(loaded.total)}, newest first, as they were sent` : "as they were sent"}>
      {loaded && (
        <div className="facets">
          {loaded.events.map((event, at) => (
            <RawEvent key={loaded.total - at} text={event} />
          ))}
        </div>
      )}
      {loaded?.total === 0 && <p className="quiet pad">No events are stored: they are older than the retention time.</p>}
      {problem && (
        <p className="problem" role="status">
          <MessageText text={problem.message} />
        </p>
      )}
      {more && (
        <p className="pad">
          <button type="button" className="button" disabled={busy} onClick={() => void load()}>
            {loaded ? "Show older events" : "Show events"}
          </button>
        </p>
      )}
    </Panel>
  );
}

/** The event is formatted when it is opened. */
function RawEvent({ text }: { text: string }): ReactNode {
  const [open, setOpen] = useState(false);
  const { eventType, eventTime } = headOf(text);
  const cut = text.length > MAX_CHARACTERS;
  return (
    <details onToggle={(toggle) => setOpen(toggle.currentTarget.open)}>
      <summary>
        <b>{visible(eventType)}</b> <span className="quiet">{clock(eventTime)}, {count(text.length)} characters</span>
      </summary>
      {open && (
        <>
          {cut && <p className="quiet pad">Only the first {count(MAX_CHARACTERS)} characters are shown.</p>}
          <pre className="json" tabIndex={0} role="region" aria-label={visible(`Event ${eventType} of ${eventTime}`)}>
            {visible(cut ? text.slice(0, MAX_CHARACTERS) : indented(text), true)}
          </pre>
        </>
      )}
    </details>
  );
}

function headOf(text: string): { eventType: string; eventTime: string } {
  const event = JSON.parse(text) as { eventType?: unknown; eventTime?: unknown };
  return { eventType: typeof event.eventType === "string" ? event.eventType : "event", eventTime: String(event.eventTime) };
}
