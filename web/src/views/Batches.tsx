/** The offsets that each micro-batch of a run read and wrote. */
import type { ReactNode } from "react";
import type { Batch, RunBatches } from "../api/types.ts";
import { useResource } from "../api/useResource.ts";
import { to } from "../model/route.ts";
import { clock } from "../model/time.ts";
import { Chart } from "../ui/Chart.tsx";
import { Name } from "../ui/Name.tsx";
import { WhenInPanel } from "../ui/States.tsx";
import { Panel, Table } from "../ui/parts.tsx";
import { Link } from "../ui/router.tsx";

const size = (ranges: Batch["inputs"]): number => ranges.reduce((sum, range) => sum + range.last - range.first + 1, 0);

export function Batches({ id }: { id: string }): ReactNode {
  const resource = useResource<RunBatches>(`/jobs/runs/${encodeURIComponent(id)}/batches?limit=100`);
  // Most runs have no batches; then nothing is shown.
  if (resource.state === "problem" && resource.problem.status !== 404) {
    return (
      <Panel title="Batches">
        <WhenInPanel resource={resource} what="list of batches">
          {() => null}
        </WhenInPanel>
      </Panel>
    );
  }
  if (resource.state !== "ready" || !resource.data.batches.length) return null;
  const { batches, truncated } = resource.data;
  const oldest = batches.toReversed();
  return (
    <Panel title="Batches" note={batches.length === 1 ? "one, with its offsets" : `the ${truncated ? "newest " : ""}${batches.length}, with their offsets`}>
      {batches.length > 1 && (
        <Chart
          label="Offsets by batch"
          kind="bars"
          height={110}
          series={[{ name: "written", tone: "accent", points: oldest.map((batch) => ({ at: Date.parse(batch.at), value: size(batch.outputs) || size(batch.inputs) })) }]}
        />
      )}
      <Table label="Offsets by batch" head={["Batch", "At", "Read", "Wrote", "Job version"]}>
        {batches.map((batch) => (
          <tr key={batch.batch}>
            <th scope="row" className="number">
              {batch.batch}
            </th>
            <td>{clock(batch.at)}</td>
            <td className="mono">
              <Ranges of={batch.inputs} />
            </td>
            <td className="mono">
              <Ranges of={batch.outputs} link />
            </td>
            <td>
              <Name text={batch.jobVersion ?? "–"} />
            </td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

/** The last offset of a written range links to its record. */
function Ranges({ of, link = false }: { of: Batch["inputs"]; link?: boolean }): ReactNode {
  if (!of.length) return "–";
  return of.map((range) => (
    <span key={`${range.topic} ${range.partition} ${range.first}`} className="block">
      <Name text={range.topic} />/{range.partition}: {range.first} to {link ? <Link to={to.record({ topic: range.topic, partition: range.partition, offset: range.last })}>{range.last}</Link> : range.last}
    </span>
  ));
}
