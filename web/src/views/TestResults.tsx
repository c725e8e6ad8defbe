/** The results of tests: what was tested, whether it passed, and why not. */
import type { ReactNode } from "react";
import { type TestResult, summaryOf } from "../model/quality.ts";
import { shortened } from "../model/names.ts";
import { to } from "../model/route.ts";
import { Name } from "../ui/Name.tsx";
import { Json, Panel, Table } from "../ui/parts.tsx";
import { Link } from "../ui/router.tsx";

const MAX_SHOWN = 200;
const MAX_TEXT = 600;

export function TestResults({ results }: { results: readonly TestResult[] }): ReactNode {
  if (!results.length) return null;
  const failed = results.some((each) => each.success === false);
  const shown = results.slice(0, MAX_SHOWN);
  return (
    <Panel title="Tests" note={`${summaryOf(results)}${shown.length < results.length ? `; the first ${MAX_SHOWN}` : ""}`} className={failed ? "error" : ""}>
      <Table label="Tests" head={["Test", "Column", "Result", "Reason", "Dataset"]}>
        {shown.map((each, at) => (
          <tr key={at}>
            <th scope="row">
              <Name text={shortened(each.name, 120)} />
            </th>
            <td className="mono">
              <Name text={each.column ?? "–"} cut />
            </td>
            <td>
              <Result result={each} />
            </td>
            <td>
              <Name text={shortened(each.why, MAX_TEXT)} className="wrap" />
              {each.content && each.success === false && (
                <details>
                  <summary>Test</summary>
                  <Json value={shortened(each.content, 20_000)} label={`Test ${each.name}`} />
                </details>
              )}
            </td>
            <td>
              {each.dataset ? (
                <Link to={to.dataset(each.dataset.namespace, each.dataset.name)}>
                  <Name text={each.dataset.name} cut />
                </Link>
              ) : (
                "–"
              )}
            </td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

function Result({ result }: { result: TestResult }): ReactNode {
  const [state, word] = result.success === null ? ["NONE", "skipped"] : result.success ? ["COMPLETED", "passed"] : result.severity === "warn" ? ["ABORTED", "failed, a warning"] : ["FAILED", "failed"];
  return (
    <span className="badge" data-state={state}>
      <i aria-hidden="true" />
      {word}
    </span>
  );
}

/** Failed tests in a table cell: `accepted_values on status: found 3`. */
export function FailedTests({ results }: { results: readonly TestResult[] }): ReactNode {
  return results
    .filter((each) => each.success === false)
    .slice(0, 20)
    .map((each, at) => (
      <span key={at} className="block wrap">
        <Name text={shortened(each.name, 120)} /> {each.column && <>on <Name text={each.column} /></>}
        {each.why && (
          <>
            : <Name text={shortened(each.why, 240)} className="quiet wrap" />
          </>
        )}
      </span>
    ));
}
