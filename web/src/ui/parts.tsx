/** Small components that several views share. */
import { type ReactNode, useState } from "react";
import { clock, ago } from "../model/time.ts";
import { pretty, visible } from "../model/names.ts";
import { Icon } from "./Icon.tsx";
import { useNow } from "./now.ts";

export function Panel({ title, note, children, id, className = "" }: { title: string; note?: ReactNode; children: ReactNode; id?: string; className?: string }): ReactNode {
  return (
    // A title may be the name of a namespace, and names come from producers.
    <section className={`panel ${className}`} aria-label={visible(title)} id={id}>
      <header>
        <h2>
          <bdi>{visible(title)}</bdi>
        </h2>
        {note && <div className="note">{note}</div>}
      </header>
      {children}
    </section>
  );
}

export function Time({ at, relative = true }: { at: string | number | null | undefined; relative?: boolean }): ReactNode {
  const now = useNow();
  if (at === null || at === undefined) return <span className="quiet">–</span>;
  const iso = typeof at === "number" ? new Date(at).toISOString() : at;
  return (
    <time dateTime={iso} title={clock(iso)}>
      {relative ? ago(iso, now) : clock(iso)}
    </time>
  );
}

/** A command line with a button to copy it. */
export function Command({ line, label }: { line: string; label: string }): ReactNode {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(line);
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    } catch {
      setCopied(false);
    }
  };
  return (
    <div className="command">
      <code aria-label={label} role="textbox" aria-readonly="true" tabIndex={0}>{visible(line)}</code>
      <button type="button" className="button" onClick={() => void copy()}>
        <Icon name="copy" /> <span aria-live="polite">{copied ? "Copied" : "Copy"}</span>
      </button>
    </div>
  );
}

export function Json({ value, label }: { value: unknown; label: string }): ReactNode {
  const text = typeof value === "string" ? pretty(value) : JSON.stringify(value, null, 2);
  return (
    // A scrollable region has to be reachable with the keyboard.
    <pre className="json" tabIndex={0} role="region" aria-label={visible(label)}>
      {visible(text ?? "null", true)}
    </pre>
  );
}

export function Facets({ facets }: { facets: Record<string, unknown> }): ReactNode {
  const names = Object.keys(facets).toSorted();
  if (!names.length) return <p className="quiet pad">No facets were sent.</p>;
  return (
    <div className="facets">
      {names.map((name) => (
        <details key={name}>
          <summary>
            <bdi>{visible(name)}</bdi>
          </summary>
          <Json value={facets[name]} label={`Facet ${name}`} />
        </details>
      ))}
    </div>
  );
}

/** Tags of a job, dataset or column. */
export function Tags({ tags }: { tags: readonly string[] }): ReactNode {
  return tags.map((tag) => (
    <span key={tag} className="tag">
      <bdi>{visible(tag)}</bdi>
    </span>
  ));
}

export function Tabs<T extends string>({ label, tabs, chosen, choose }: { label: string; tabs: readonly (readonly [T, string])[]; chosen: T; choose: (tab: T) => void }): ReactNode {
  return (
    <div className="segmented" role="group" aria-label={label}>
      {tabs.map(([value, text]) => (
        <button key={value} type="button" aria-pressed={value === chosen} onClick={() => choose(value)}>
          {text}
        </button>
      ))}
    </div>
  );
}

/** A table that scrolls horizontally on narrow screens. */
export function Table({ label, head, children }: { label: string; head: readonly string[]; children: ReactNode }): ReactNode {
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={visible(`Table: ${label}`)}>
      <table>
        <thead>
          <tr>
            {head.map((each) =>
              each ? (
                <th key={each} scope="col">
                  {each}
                </th>
              ) : (
                <td key={each} />
              ),
            )}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

export function Facts({ rows }: { rows: readonly (readonly [string, ReactNode])[] }): ReactNode {
  return (
    <dl className="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
