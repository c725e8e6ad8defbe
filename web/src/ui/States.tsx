/** States without data: loading, empty, refused, unreachable. */
import { type FormEvent, type ReactNode, useState } from "react";
import { Problem, keepApiKey } from "../api/client.ts";
import { type Resource, clearCache } from "../api/useResource.ts";
import { Icon, type IconName } from "./Icon.tsx";
import { MessageText } from "./MessageText.tsx";

interface NoticeProps {
  icon: IconName;
  title: string;
  children?: ReactNode;
  tone?: "plain" | "bad";
}

export function Notice({ icon, title, children, tone = "plain" }: NoticeProps): ReactNode {
  return (
    <div className="notice" data-tone={tone} role={tone === "bad" ? "alert" : undefined}>
      <Icon name={icon} />
      <div>
        <h2>{title}</h2>
        {children}
      </div>
    </div>
  );
}

export function Loading({ what, rows = 4 }: { what: string; rows?: number }): ReactNode {
  return (
    <div className="loading" role="status" aria-label={`Loading ${what}`}>
      {Array.from({ length: rows }, (_, at) => (
        <span key={at} className="bar" />
      ))}
    </div>
  );
}

export function ProblemNotice({ problem, retry, what }: { problem: Problem; retry?: () => void; what: string }): ReactNode {
  if (problem.status === 401) return <KeyForm />;
  const title =
    problem.status === 0
      ? "The service does not respond"
      : problem.status === 403
        ? "This key has no access"
        : problem.status === 404
          ? `There is no such ${what}`
          : problem.status === 429 || problem.status === 503
            ? "Not available at the moment"
            : `The ${what} cannot be shown`;
  return (
    <Notice icon={problem.status === 404 ? "search" : problem.status === 403 ? "key" : "alert"} title={title} tone="bad">
      <p>
        <MessageText text={problem.message} />
      </p>
      {problem.hint && (
        <p className="hint">
          <MessageText text={problem.hint} />
        </p>
      )}
      {problem.status === 403 ? (
        <button type="button" className="button" onClick={leave}>
          Use another key
        </button>
      ) : (
        retry && (
          <button type="button" className="button" onClick={retry}>
            Try again
          </button>
        )
      )}
    </Notice>
  );
}

function leave(): void {
  keepApiKey(null);
  clearCache();
  location.reload();
}

/** If the service requires a key: it is kept in this tab and sent with every request. */
function KeyForm(): ReactNode {
  const [key, setKey] = useState("");
  const enter = (event: FormEvent): void => {
    event.preventDefault();
    keepApiKey(key.trim() || null);
    clearCache();
    location.reload();
  };
  return (
    <Notice icon="key" title="This service requires a key">
      <form className="keyform" onSubmit={enter}>
        <label htmlFor="key">API key or token with the role <code>read</code></label>
        <div className="row">
          <input id="key" type="password" autoComplete="off" spellCheck={false} value={key} onChange={(event) => setKey(event.target.value)} />
          <button type="submit" className="button primary">Use key</button>
        </div>
        <p className="hint">
          <code>headwater keys create me --role read</code> creates one. It is kept in this tab and forgotten when the tab is closed.
        </p>
      </form>
    </Notice>
  );
}

interface WhenProps<T> {
  resource: Resource<T>;
  what: string;
  rows?: number;
  children: (data: T) => ReactNode;
  /** Instead of "there is no such …". */
  missing?: ReactNode;
}

/** Inside a panel: a problem is shown in one line, and the rest of the view stays. */
export function WhenInPanel<T>({ resource, what, rows, children }: Omit<WhenProps<T>, "missing">): ReactNode {
  if (resource.state !== "problem") {
    return (
      <When resource={resource} what={what} rows={rows ?? 2}>
        {children}
      </When>
    );
  }
  const { problem, retry } = resource;
  const refused = problem.status === 401 || problem.status === 403;
  return (
    <p className="problem" role="status">
      <Icon name={refused ? "key" : "alert"} />
      <span>
        {refused ? `This key has no access to the ${what}.` : `The ${what} cannot be shown: `}
        {!refused && <MessageText text={problem.message} />}
      </span>
      {!refused && (
        <button type="button" className="button" onClick={retry}>
          Try again
        </button>
      )}
    </p>
  );
}

/** The content of a resource, or its state. */
export function When<T>({ resource, what, rows, children, missing }: WhenProps<T>): ReactNode {
  if (resource.state === "idle") return null;
  if (resource.state === "loading") return <Loading what={what} rows={rows ?? 4} />;
  if (resource.state === "problem") {
    if (resource.problem.status === 404 && missing) return missing;
    return <ProblemNotice problem={resource.problem} retry={resource.retry} what={what} />;
  }
  return (
    <>
      {resource.stale && (
        <p className="stale" role="status">
          <Icon name="alert" /> Not up to date: <MessageText text={resource.stale.message} /> Retrying.
        </p>
      )}
      {children(resource.data)}
    </>
  );
}
