/** From the catalog: the batch that wrote a record, and what it read, back to the sources. */
import type { ReactNode } from "react";
import type { RecordOfCatalog } from "../api/types.ts";
import { to } from "../model/route.ts";
import { Name } from "../ui/Name.tsx";
import { StateBadge } from "../ui/StateBadge.tsx";
import { Panel, Table, Time } from "../ui/parts.tsx";
import { Link } from "../ui/router.tsx";

interface Row {
  depth: number;
  topic: string;
  partition: number;
  first: number;
  last: number;
  by: Omit<RecordOfCatalog, "topic" | "partition" | "offset"> | null;
}

function rowsOf(record: RecordOfCatalog): Row[] {
  const rows: Row[] = [{ depth: 0, topic: record.topic, partition: record.partition, first: record.first, last: record.last, by: record }];
  const add = (batch: Pick<RecordOfCatalog, "trace">, depth: number): void => {
    for (const range of batch.trace) {
      const position = { depth, topic: range.topic, partition: range.partition, first: range.first, last: range.last };
      const [writer, ...others] = range.writtenBy;
      rows.push({ ...position, by: writer ?? null });
      if (writer) add(writer, depth + 1);
      for (const other of others) {
        rows.push({ ...position, by: other });
        add(other, depth + 1);
      }
    }
  };
  add(record, 1);
  return rows;
}

export function BatchTrace({ record }: { record: RecordOfCatalog }): ReactNode {
  return (
    <Panel title="Batches in the catalog" note={record.truncated ? "truncated" : "ranges of offsets, not single records"}>
      <Table label="Batches" head={["Offsets", "Job", "Version", "Batch", "Run", "Written"]}>
        {rowsOf(record).map((row, at) => (
          <tr key={at}>
            <th scope="row" className="mono" style={{ paddingInlineStart: 12 + row.depth * 16 }}>
              <Name text={row.topic} />/{row.partition}: {row.first} to {row.last}
            </th>
            {row.by ? (
              <>
                <td>
                  {row.by.job ? (
                    <Link to={to.job(row.by.job.namespace, row.by.job.name)}>
                      <Name text={row.by.job.name} cut />
                    </Link>
                  ) : (
                    "–"
                  )}
                </td>
                <td>
                  <Name text={row.by.jobVersion ?? "–"} />
                </td>
                <td className="number">{row.by.batch}</td>
                <td>
                  <Link to={to.run(row.by.run.id)}>{row.by.run.id.slice(0, 8)}</Link> <StateBadge state={row.by.run.state} />
                </td>
                <td>
                  <Time at={row.by.writtenAt} relative={false} />
                </td>
              </>
            ) : (
              <td colSpan={5} className="quiet">
                source: no batch reported these offsets
              </td>
            )}
          </tr>
        ))}
      </Table>
    </Panel>
  );
}
