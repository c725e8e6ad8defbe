"""Row lineage in headers: visits pass through two jobs, and each output names its parents.

The topics may contain a user's records: the demo checks only new ones, and can be repeated on the
same broker.
"""

from __future__ import annotations

from collections import Counter
from types import ModuleType

from headwater.demo.stack import start_broker
from headwater.demo.story import Story
from headwater.generator import KINDS, generate
from headwater.jobs import visits_decorator_job, visits_reducer_job
from headwater.kafka import RecordProducer, end_offsets, ensure_topic, read_topic
from headwater.model import Record
from headwater.model.header import LINEAGE, PARENT_LINEAGE
from headwater.settings import Settings
from headwater.tracing import TraceNode, trace, verify

_VISITS = 200
_SHOWN = 2
_INPUT = KINDS["visits"].topic
_DECORATED = "visits-decorated"
_REDUCED = "visits-reduced"


def run(story: Story) -> None:
    """Run the demo on the local broker or the configured one."""
    settings = story.settings
    story.title("Tracker: every record names its job, version, micro-batch and parents")
    start_broker(story)
    partitions = ensure_topic(_INPUT, KINDS["visits"].partitions, settings.kafka).partitions
    sent = _generate(story, partitions)
    decorated = _run(story, visits_decorator_job, _DECORATED, partitions)
    reduced = _run(story, visits_reducer_job, _REDUCED, partitions)
    _check_decorated(story, sent, decorated)
    _check_reduced(story, decorated, reduced)
    if reduced:
        _trace(story, reduced[-1], settings)


def _generate(story: Story, partitions: int) -> list[Record]:
    settings = story.settings
    before = end_offsets(_INPUT, settings.kafka)
    with story.step(f"Generate visits into `{_INPUT}`") as step:
        # Seeded by the end offsets, so that a second run sends other visits.
        with RecordProducer(settings.kafka) as producer:
            for key, value in generate("visits", _VISITS, seed=sum(before.values())):
                producer.send(_INPUT, value, key)
        step.result = f"{producer.delivered} records on {partitions} partitions"
    return list(read_topic(_INPUT, settings.kafka, start=before))


def _run(story: Story, job: ModuleType, output: str, partitions: int) -> list[Record]:
    """Run a job until all records are processed; returns the records that it wrote."""
    settings = story.settings
    ensure_topic(output, partitions, settings.kafka)
    before = end_offsets(output, settings.kafka)
    name = job.__name__.rpartition(".")[2]
    with story.step(f"Run `{name}` on Spark until all records are processed") as step:
        job.main.main(["--available-now", "--quiet"], standalone_mode=False, obj=settings)
        records = list(read_topic(output, settings.kafka, start=before))
        step.result = f"{len(records)} records in `{output}`"
    for record in records[:_SHOWN]:
        story.show(str(record.address))
        for header, value in record.headers:
            story.show(f"  {header}:{(value or b'').decode('utf-8', 'replace')}")
        story.show((record.value or b"").decode("utf-8", "replace"), dim=True)
    return records


def _check_decorated(story: Story, sent: list[Record], decorated: list[Record]) -> None:
    expected = Counter((record.key, record.value) for record in sent)
    actual = Counter((record.key, record.value) for record in decorated)
    story.check(
        f"all {len(sent)} visits are in `{_DECORATED}`, key and value byte for byte",
        len(sent) == _VISITS and not expected - actual,
        f"{(expected - actual).total()} are missing",
    )
    repeated = {pair for pair in actual - expected if pair in expected}
    story.check("there are no duplicates", not repeated, f"{len(repeated)} are")
    names = ["job_version", "job_name", "batch_version", LINEAGE]
    wrong = [record for record in decorated if [name for name, _ in record.headers][:4] != names]
    story.check(
        "each has the headers job_version, job_name, batch_version and lineage, in this order",
        not wrong and bool(decorated),
        f"{wrong[0].address} does not" if wrong else "there is no record",
    )
    keys = {key for key, _ in expected}
    story.check(
        "the visits of each visitor are in the order in which they were sent",
        all(_values(sent, key) == _values(decorated, key) for key in keys),
    )


def _check_reduced(story: Story, decorated: list[Record], reduced: list[Record]) -> None:
    names = ["job_name", "job_version", "batch_version", PARENT_LINEAGE, LINEAGE]
    wrong = [record for record in reduced if [name for name, _ in record.headers][:5] != names]
    story.check(
        "each reduced visit also has the headers of the job before",
        not wrong and bool(reduced),
        f"{wrong[0].address} does not" if wrong else "there is no record",
    )
    for output, source in ((_DECORATED, _INPUT), (_REDUCED, _DECORATED)):
        report = verify(output, source, story.settings)
        story.check(
            f"`headwater verify {output} --source {source}` finds nothing missing",
            report.missing == 0 and report.expected > 0,
            f"{report.missing} of {report.expected} are",
        )


def _trace(story: Story, record: Record, settings: Settings) -> None:
    with story.step(f"Trace {record.address} to its source: `headwater trace`"):
        node = trace(record.address, settings, values=True)
    hops = _path(node)
    for hop in hops:
        made_by = f"{hop.job_name} {hop.job_version}, batch {hop.batch_version}"
        story.show(f"{hop.address}  {made_by if hop.job_name else 'source record'}")
    jobs = [hop.job_name for hop in hops]
    story.check(
        "the trace leads through both jobs to the visit",
        jobs == ["visits_reducer", "visits_decorator", None] and hops[-1].address.topic == _INPUT,
        f"it leads through {jobs}",
    )


def _path(node: TraceNode) -> list[TraceNode]:
    path = [node]
    while path[-1].parents:
        path.append(path[-1].parents[0])
    return path


def _values(records: list[Record], key: bytes | None) -> list[bytes | None]:
    return [record.value for record in records if record.key == key]
