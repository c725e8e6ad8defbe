"""Ordered delivery: the same visits in three modes, compared by the timestamps of the records.

The topics may contain a user's records: the demo checks only new ones, and can be repeated on the
same broker.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from types import ModuleType

from headwater.demo.stack import start_broker
from headwater.demo.story import Story
from headwater.generator import KINDS, generate
from headwater.jobs import (
    fifo_orderer_bulk_idempotent_job,
    fifo_orderer_bulk_send_job,
    fifo_orderer_individual_send_job,
)
from headwater.kafka import RecordProducer, end_offsets, ensure_topic, read_topic
from headwater.model import Record
from headwater.model.header import origin_of
from headwater.tracing import verify

_INPUT = KINDS["visits"].topic
_INDIVIDUAL = "visits-individual-send"
# Few: with one second between them, the larger partition takes one second per visit.
_VISITS = 12
_PAUSE_SECONDS = 1
_SHOWN = 4


def run(story: Story) -> None:
    """Run the demo on the local broker or the configured one."""
    settings = story.settings
    story.title("FIFO: visits keep their order when they are written to Kafka, in three modes")
    start_broker(story)
    partitions = ensure_topic(_INPUT, KINDS["visits"].partitions, settings.kafka).partitions
    if any(end_offsets(_INPUT, settings.kafka).values()):
        with story.step("Send the existing records one by one, without a pause"):
            _run(fifo_orderer_individual_send_job, story)
    before = end_offsets(_INPUT, settings.kafka)
    with story.step(f"Generate visits into `{_INPUT}`") as step:
        # Seeded by the end offsets, so that a second run sends other visits.
        with RecordProducer(settings.kafka) as producer:
            for key, value in generate("visits", _VISITS, seed=sum(before.values())):
                producer.send(_INPUT, value, key)
        step.result = f"{producer.delivered} records on {partitions} partitions"
    visits = list(read_topic(_INPUT, settings.kafka, start=before))
    pause = ("--pause", str(_PAUSE_SECONDS))
    one_by_one = _deliver(story, fifo_orderer_individual_send_job, _INDIVIDUAL, partitions, *pause)
    _check_spacing(story, one_by_one)
    _check_order(story, visits, one_by_one, _INDIVIDUAL)
    for job, output in (
        (fifo_orderer_bulk_send_job, "visits-batched"),
        (fifo_orderer_bulk_idempotent_job, "visits-idempotent"),
    ):
        _check_order(story, visits, _deliver(story, job, output, partitions), output)


def _run(job: ModuleType, story: Story, *options: str) -> None:
    arguments = ["--available-now", "--quiet", *options]
    job.main.main(arguments, standalone_mode=False, obj=story.settings)


def _deliver(
    story: Story, job: ModuleType, output: str, partitions: int, *options: str
) -> list[Record]:
    """Run a job until all records are processed; returns the records that it wrote."""
    ensure_topic(output, partitions, story.settings.kafka)
    before = end_offsets(output, story.settings.kafka)
    command = " ".join([job.__name__.rpartition(".")[2], *options])
    with story.step(f"Run `{command}` until all records are processed") as step:
        _run(job, story, *options)
        records = list(read_topic(output, story.settings.kafka, start=before))
        step.result = f"{len(records)} records in `{output}`"
    # In the order in which they were sent, over all partitions.
    latest = sorted(records, key=lambda record: record.timestamp_ms or 0)[-_SHOWN:]
    for record in latest:
        value = (record.value or b"").decode("utf-8", "replace")
        story.show(
            f"CreateTime:{record.timestamp_ms}  Partition:{record.address.partition}  {value}"
        )
    return records


def _by_input_partition(records: list[Record]) -> dict[int, list[Record]]:
    """Outputs by the partition of their parents: each task reads and sends one partition."""
    outputs: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        lineage = origin_of(record).lineage
        if lineage is not None and lineage.parents:
            outputs[lineage.parents[0].partition].append(record)
    return outputs


def _check_spacing(story: Story, records: list[Record]) -> None:
    times = [
        sorted(record.timestamp_ms or 0 for record in each)
        for each in _by_input_partition(records).values()
    ]
    gaps = [later - earlier for each in times for earlier, later in pairwise(each)]
    story.check(
        f"visits of a partition are at least {_PAUSE_SECONDS} s apart",
        bool(gaps) and min(gaps) >= _PAUSE_SECONDS * 1000,
        f"the shortest interval is {min(gaps)} ms" if gaps else "no partition has two visits",
    )


def _check_order(story: Story, visits: list[Record], outputs: list[Record], output: str) -> None:
    sent = {each.address: (each.key, each.value) for each in visits}
    lineages = [origin_of(record).lineage for record in outputs]
    parents = [lineage.parents[0] for lineage in lineages if lineage and lineage.parents]
    new = [parent for parent in parents if parent in sent]
    unchanged = all(
        sent[parent] == (record.key, record.value)
        for parent, record in zip(parents, outputs, strict=False)
        if parent in sent
    )
    story.check(
        "each visit was written once, with the same key and value",
        sorted(new) == sorted(sent) and unchanged and len(parents) == len(outputs),
        f"{len(set(new))} of {len(sent)} were",
    )
    report = verify(output, _INPUT, story.settings)
    story.check(
        f"`headwater verify {output} --source {_INPUT} --order` finds no inversion and no gap",
        report.out_of_order == 0 and report.missing == 0 and report.scanned > 0,
        f"inversions: {report.out_of_order}, gaps: {report.missing}",
    )
