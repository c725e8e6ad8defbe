"""Reprocessing: clicks are archived and converted as they arrive, and some converted again.

The topics may contain a user's records: the demo checks only new ones, and can be repeated on the
same broker.
"""

from __future__ import annotations

import json
from itertools import islice
from types import ModuleType

from headwater.demo.stack import start_broker
from headwater.demo.story import Story
from headwater.errors import ReplayRefusedError
from headwater.generator import KINDS, generate
from headwater.jobs import (
    data_synchronization_job,
    visits_converter_reprocessing_job,
    visits_converter_streaming_job,
)
from headwater.kafka import RecordProducer, end_offsets, ensure_topic, read_topic
from headwater.model import Record
from headwater.model.foreign_headers import REPLAY_ID
from headwater.model.header import origin_of
from headwater.replay.checking import check_replay
from headwater.replay.folder import all_replays, find_replay
from headwater.replay.operation import LazySparkSession
from headwater.storage.archive.reader import Archive
from headwater.storage.offset_ranges import OffsetRanges

_CLICKS = KINDS["clicks"].topic
_CONVERTED = "clicks_transformed"
_BATCHES, _BATCH = 3, 3
_RANGE = ("--input-topic", _CLICKS, "--output-topic", _CONVERTED)


def run(story: Story) -> None:
    """Run the demo on the local broker or the configured one."""
    story.title("Reprocessor: archived records are transformed again, without duplicates")
    start_broker(story)
    settings = story.settings
    for topic in (_CLICKS, _CONVERTED):
        ensure_topic(topic, KINDS["clicks"].partitions, settings.kafka)
    first = end_offsets(_CLICKS, settings.kafka)[0]
    _process_existing(story, first)
    sent = _archive(story, first)
    converted = _convert(story)
    _check_archive(story, sent)
    values = [json.loads(record.value or b"{}") for record in converted]
    story.check(
        f"each click is in `{_CONVERTED}` under longer names",
        [list(value) for value in values]
        == [["event_identifier", "visit_identifier", "event_time", "visited_page"]] * len(sent),
    )
    _reprocess(story, first, converted)
    _refuse(story, first + len(sent))


def _process_existing(story: Story, first: int) -> None:
    """Let the jobs process the records that were there before the demo."""
    if not first:
        return
    with story.step("Archive and convert the existing records"):
        _run(story, data_synchronization_job, "--input-topic", _CLICKS)
        _run(story, visits_converter_streaming_job, *_streaming(story))


def _archive(story: Story, first: int) -> list[Record]:
    settings = story.settings
    # Seeded by the end offset, so that a second run sends other clicks.
    clicks = generate("clicks", _BATCHES * _BATCH, seed=first)
    versions = []
    for number in range(_BATCHES):
        text = f"Send {_BATCH} clicks to `{_CLICKS}` and run `data_synchronization_job`"
        with story.step(text) as step:
            with RecordProducer(settings.kafka) as producer:
                for key, value in islice(clicks, _BATCH):
                    producer.send(_CLICKS, value, key, partition=0)
            _run(story, data_synchronization_job, "--input-topic", _CLICKS)
            versions.append(Archive.open(_CLICKS, settings).version)
            step.result = f"version {versions[-1]} of the archive"
        if number == 0:
            story.show(str(Archive.open(_CLICKS, settings).path), dim=True)
    story.check(
        "each batch is one version of the Delta table",
        versions == list(range(versions[0], versions[0] + _BATCHES)),
        f"versions {versions}",
    )
    return list(read_topic(_CLICKS, settings.kafka, start={0: first}))


def _check_archive(story: Story, sent: list[Record]) -> None:
    offsets = {0: OffsetRanges.of((sent[0].address.offset, sent[-1].address.offset))}
    archived = list(Archive.open(_CLICKS, story.settings).read(offsets))
    story.check(
        "the archive has every click with its address, key and value",
        archived == sent and len(sent) == _BATCHES * _BATCH,
        f"{len(archived)} of {len(sent)} are archived",
    )


def _convert(story: Story) -> list[Record]:
    before = end_offsets(_CONVERTED, story.settings.kafka)
    with story.step("Run `visits_converter_streaming_job` until all records are processed") as step:
        _run(story, visits_converter_streaming_job, *_streaming(story))
        records = list(read_topic(_CONVERTED, story.settings.kafka, start=before))
        step.result = f"{len(records)} records in `{_CONVERTED}`"
    for record in records[:2]:
        story.show((record.value or b"").decode("utf-8", "replace"), dim=True)
    return records


def _reprocess(story: Story, first: int, converted: list[Record]) -> None:
    settings = story.settings
    before = end_offsets(_CONVERTED, settings.kafka)
    words = (str(first), str(first + _BATCH - 1))
    command = f"visits_converter_reprocessing_job {' '.join(words)}"
    with story.step(f"Reprocess the first {_BATCH}: `{command}`") as step:
        _run_reprocessing(story, *words)
        records = list(read_topic(_CONVERTED, settings.kafka, start=before))
        step.result = f"{len(records)} records more in `{_CONVERTED}`"
    for record in records[:1]:
        for header, value in record.headers:
            story.show(f"  {header}:{(value or b'').decode('utf-8', 'replace')}")
    story.check(
        "exactly these are written again, in order, with the same keys, values and record ids",
        [(r.key, r.value, origin_of(r).record_id) for r in records]
        == [(r.key, r.value, origin_of(r).record_id) for r in converted[:_BATCH]],
        f"{len(records)} records",
    )
    ids = {record.header(REPLAY_ID) for record in records}
    story.check("each names the replay that wrote it", len(ids) == 1 and None not in ids)
    with story.step("Reprocess the same records again") as step:
        _run_reprocessing(story, *words)
        more = sum(end_offsets(_CONVERTED, settings.kafka).values()) - sum(before.values()) - _BATCH
        step.result = f"{more} records more"
    story.check("the second time nothing is written", more == 0, f"{more} records were written")
    if not ids or None in ids:
        return
    replay_id = (ids.pop() or b"").decode()
    check = check_replay(find_replay(replay_id, settings), settings, LazySparkSession(settings))
    story.check(
        f"`headwater replay verify {replay_id}` matches archive and topic",
        check.passed,
        "; ".join(check.findings),
    )


def _refuse(story: Story, end: int) -> None:
    known = len(list(all_replays(story.settings)))
    try:
        _run_reprocessing(story, str(end - 1), str(end + 5))
        reason = "it was not refused"
    except ReplayRefusedError as error:
        reason = error.message
        story.show(f"error: {reason}")
    story.check(
        "offsets that are not archived yet are refused by name",
        f"{_CLICKS}/0@{end} to {end + 5}" in reason
        and len(list(all_replays(story.settings))) == known,
        reason,
    )


def _streaming(story: Story) -> tuple[str, ...]:
    checkpoint = story.settings.home_dir / "checkpoints" / "visits_converter-clicks"
    return (*_RANGE, "--checkpoint", str(checkpoint))


def _run(story: Story, job: ModuleType, *options: str) -> None:
    arguments = ["--available-now", "--quiet", *options]
    job.main.main(arguments, standalone_mode=False, obj=story.settings)


def _run_reprocessing(story: Story, *words: str) -> None:
    arguments = [*words, "--quiet", *_RANGE]
    visits_converter_reprocessing_job.main.main(
        arguments, standalone_mode=False, obj=story.settings
    )
