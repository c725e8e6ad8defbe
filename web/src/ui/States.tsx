/** What is shown while there is nothing to show: loading, empty, refused, not reachable. */
import { type FormEvent, type ReactNode, useState } from "react";
import { Problem, keepApiKey } from "../api/client.ts";
import { type Asked, forgetAnswers } from "../api/useAnswer.ts";
import { Icon, type IconName } from "./Icon.tsx";
import { Words } from "./Words.tsx";

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

export function ProblemNotice({ problem, again, what }: { problem: Problem; again?: () => void; what: string }): ReactNode {
  if (problem.status === 401) return <KeyForm />;
  const title =
    problem.status === 0
      ? "The service does not answer"
      : problem.status === 403
        ? "This key may not see that"
        : problem.status === 404
          ? `There is no such ${what}`
          : problem.status === 429 || problem.status === 503
            ? "This can't be answered now"
            : `The ${what} can't be shown`;
  return (
    <Notice icon={problem.status === 404 ? "search" : problem.status === 403 ? "key" : "alert"} title={title} tone="bad">
      <p>
        <Words text={problem.message} />
      </p>
      {problem.hint && (
        <p className="hint">
          <Words text={problem.hint} />
        </p>
      )}
      {problem.status === 403 ? (
        <button type="button" className="button" onClick={leave}>
          Use another key
        </button>
      ) : (
        again && (
          <button type="button" className="button" onClick={again}>
            Try again
          </button>
        )
      )}
    </Notice>
  );
}

function leave(): void {
  keepApiKey(null);
  forgetAnswers();
  location.reload();
}

/** Where the service asks for keys: kept in this tab, sent with every question. */
function KeyForm(): ReactNode {
  const [key, setKey] = useState("");
  const enter = (event: FormEvent): void => {
    event.preventDefault();
    keepApiKey(key.trim() || null);
    forgetAnswers();
    location.reload();
  };
  return (
    <Notice icon="key" title="This service asks for a key">
      <form className="keyform" onSubmit={enter}>
        <label htmlFor="key">API key or token with the role <code>read</code></label>
        <div className="row">
          <input id="key" type="password" autoComplete="off" spellCheck={false} value={key} onChange={(event) => setKey(event.target.value)} />
          <button type="submit" className="button primary">Use it</button>
        </div>
        <p className="hint">
          <code>headwater keys create me --role read</code> makes one. It is kept in this tab and forgotten when the tab is closed.
        </p>
      </form>
    </Notice>
  );
}

interface WhenProps<T> {
  asked: Asked<T>;
  what: string;
  rows?: number;
  children: (data: T) => ReactNode;
  /** Instead of "there is no such …". */
  missing?: ReactNode;
}

/** Inside a panel: what stands around it goes on, so a problem is told in a line. */
export function WhenInPanel<T>({ asked, what, rows, children }: Omit<WhenProps<T>, "missing">): ReactNode {
  if (asked.state !== "problem") {
    return (
      <When asked={asked} what={what} rows={rows ?? 2}>
        {children}
      </When>
    );
  }
  const { problem, again } = asked;
  const refused = problem.status === 401 || problem.status === 403;
  return (
    <p className="problem" role="status">
      <Icon name={refused ? "key" : "alert"} />
      <span>
        {refused ? `This key may not see the ${what}.` : `The ${what} can't be shown now: `}
        {!refused && <Words text={problem.message} />}
      </span>
      {!refused && (
        <button type="button" className="button" onClick={again}>
          Try again
        </button>
      )}
    </p>
  );
}

/** What was asked for, or whatever stands in its place. */
export function When<T>({ asked, what, rows, children, missing }: WhenProps<T>): ReactNode {
  if (asked.state === "idle") return null;
  if (asked.state === "loading") return <Loading what={what} rows={rows ?? 4} />;
  if (asked.state === "problem") {
    if (asked.problem.status === 404 && missing) return missing;
    return <ProblemNotice problem={asked.problem} again={asked.again} what={what} />;
  }
  return (
    <>
      {asked.late && (
        <p className="late" role="status">
          <Icon name="alert" /> Not up to date: <Words text={asked.late.message} /> It is tried again.
        </p>
      )}
      {children(asked.data)}
    </>
  );
}
