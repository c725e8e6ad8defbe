"""Row lineage in headers: visits go through a job, and each record says which job wrote it."""

from __future__ import annotations

from collections import Counter

from headwater.demo.story import Story
from headwater.generator import KINDS, generate
from headwater.jobs import visits_decorator_job
from headwater.jvm.jars import ensure_jars
from headwater.kafka import RecordProducer, end_offsets, ensure_topic, read_topic
from headwater.model import Record
from headwater.rowlineage.headers import BATCH_VERSION, JOB_NAME, JOB_VERSION
from headwater.services import up

_VISITS = 200
_SHOWN = 3
_INPUT = KINDS["visits"].topic
_OUTPUT = "visits-decorated"


def tell(story: Story) -> None:
    """The seed's first half, on the local broker or the user's own."""
    settings = story.settings
    story.title("Tracker: every record says which job, version and micro-batch wrote it")
    with story.step("Make sure that the pinned jars are there") as step:
        jars = ensure_jars(("broker", "kafka"), settings, story.watch)
        step.result = f"{len(jars)} in {settings.jars_dir}"
    with story.step("Start a Kafka broker") as step:
        for state in up(["kafka"], settings, story.watch):
            step.result = f"{state.state} at {state.address}"
    partitions = ensure_topic(_INPUT, KINDS["visits"].partitions, settings).partitions
    ensure_topic(_OUTPUT, partitions, settings)
    # The topics are a user's as well as the story's: it looks only at what is new.
    before_input, before_output = end_offsets(_INPUT, settings), end_offsets(_OUTPUT, settings)
    with story.step(f"Generate visits into `{_INPUT}`") as step:
        # Seeded by what is there, so that a second telling brings other visits.
        seed = sum(before_input.values())
        with RecordProducer(settings) as producer:
            for key, value in generate("visits", _VISITS, seed=seed):
                producer.send(_INPUT, value, key)
        step.result = f"{producer.delivered} records on {partitions} partitions"
    with story.step("Run `visits_decorator_job` on Spark until it has caught up") as step:
        visits_decorator_job.main.main(
            ["--available-now", "--quiet"], standalone_mode=False, obj=settings
        )
        after = end_offsets(_OUTPUT, settings)
        new = sum(after.values()) - sum(before_output.values())
        step.result = f"{new} records in `{_OUTPUT}`"
    sent = list(read_topic(_INPUT, settings, start=before_input))
    decorated = list(read_topic(_OUTPUT, settings, start=before_output, until=after))
    with story.step(f"Look at `{_OUTPUT}`"):
        pass
    for record in decorated[:_SHOWN]:
        headers = ",".join(f"{name}:{(value or b'').decode()}" for name, value in record.headers)
        story.show(str(record.address))
        story.show(headers)
        story.show((record.value or b"").decode(), dim=True)
    _check(story, sent, decorated)


def _check(story: Story, sent: list[Record], decorated: list[Record]) -> None:
    wanted = Counter((record.key, record.value) for record in sent)
    found = Counter((record.key, record.value) for record in decorated)
    story.check(
        f"all {len(sent)} visits arrived, key and value byte for byte",
        len(sent) == _VISITS and not wanted - found,
        f"{(wanted - found).total()} are missing",
    )
    repeated = found - wanted
    own = {pair: count for pair, count in repeated.items() if pair in wanted}
    story.check("none arrived twice", not own, f"{sum(own.values())} did")
    names = [JOB_VERSION, JOB_NAME, BATCH_VERSION]
    wrong = [record for record in decorated if [name for name, _ in record.headers][:3] != names]
    story.check(
        "each carries job_version, job_name and batch_version, in this order",
        not wrong and bool(decorated),
        f"{wrong[0].address} does not" if wrong else "there is no record",
    )
    keys = {key for key, _ in wanted}
    story.check(
        "the visits of each visitor are in the order in which they were sent",
        all(_values(sent, key) == _values(decorated, key) for key in keys),
    )


def _values(records: list[Record], key: bytes | None) -> list[bytes | None]:
    return [record.value for record in records if record.key == key]
