"""Compares a checkpoint with the query that starts with it, before its first batch.

Refused unless accepted by name (`query_identity.ACCEPTABLE`): the checkpoint of another job, output
or input; topics that were recreated; a new checkpoint for an output that has records of this job.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.collector.query import QueryDescription
from headwater.collector.sources import KafkaInputs
from headwater.errors import AuthorizationError, CheckpointError, InputError
from headwater.kafka import end_offsets, find_topics, list_topics, partition_states
from headwater.model import Record
from headwater.model.local_files import network_file_system
from headwater.openlineage.events import name_of
from headwater.settings import Settings
from headwater.spark.query_runner import local_checkpoint
from headwater.storage.checkpoint import (
    NO_BATCH,
    QueryIdentity,
    read_checkpoint,
    read_identity,
    read_progress,
    save_identity,
)
from headwater.storage.query_identity import (
    ACCEPTABLE,
    DUPLICATES,
    ONCE_MODES,
    RECREATED_INPUT,
    IdentityDifference,
    differences,
    recent_records,
    refuse,
    refuse_other_mode,
    reset_topics,
)

_LOG = logging.getLogger(__name__)


def check_accepted(names: Iterable[str]) -> frozenset[str]:
    """The names as a set.

    Raises:
        InputError: one of them is unknown.
    """
    accepted = frozenset(names)
    for name in sorted(accepted - ACCEPTABLE.keys()):
        raise InputError(f"can't accept {name!r}", hint=f"known: {', '.join(ACCEPTABLE)}")
    return accepted


def guard_checkpoint(
    checkpoint: Path | str,
    spark: SparkSession,
    query: QueryDescription,
    delivery: str | None,
    settings: Settings,
    accept: Collection[str] = (),
) -> None:
    """Refuse a checkpoint that does not belong to the query, then store that it does.

    A checkpoint of an earlier version, which has no identity, is adopted.

    Args:
        checkpoint: its path, or its URI on a file system that only Spark can reach.
        delivery: the delivery mode; None for tables.
        accept: differences that are accepted, by their names.

    Raises:
        CheckpointError: the checkpoint and the query do not belong together.
    """
    if isinstance(checkpoint, Path):
        _warn_of_network_file_system(checkpoint)
        _guard(checkpoint, checkpoint, query, delivery, settings, accept)
        return
    with local_checkpoint(checkpoint, spark) as folder:
        _guard(checkpoint, folder, query, delivery, settings, accept)


def _guard(
    checkpoint: Path | str,
    folder: Path,
    query: QueryDescription,
    delivery: str | None,
    settings: Settings,
    accept: Collection[str],
) -> None:
    """`folder` is the checkpoint, or a local copy of it."""
    inputs = _inputs_of(query, settings)
    stored, current = read_identity(folder), _identity(query, delivery, settings)
    if inputs is not None:
        current = replace(current, inputs=_ids_of_inputs(inputs, folder, settings))
    progress = read_progress(folder)
    accepted: list[IdentityDifference] = []
    if stored is not None:
        refuse_other_mode(stored, current, progress.cut_off, checkpoint)
        found = list(differences(stored, current, partial(_reads, inputs)))
        for difference in found:
            if difference.change not in accept:
                raise refuse(difference, checkpoint)
        accepted += found
        _restart(
            folder, [each.subject for each in found if each.change == RECREATED_INPUT], settings
        )
    if progress.started == NO_BATCH and not _was_accepted(stored):
        found_output = _written_output(query, delivery, inputs, settings)
        accepted += _lost_checkpoint(checkpoint, query.job_name, found_output, accept)
    for difference in accepted:
        _LOG.warning(
            "accepted %s: %s was %s, is %s",
            *(difference.change, difference.subject, difference.before, difference.after),
        )
    query.accepted.extend(each.as_json() for each in accepted)
    if stored is not None:
        # A topic of a pattern that does not exist now may be recreated later.
        missing = {topic: known for topic, known in stored.inputs.items() if _reads(inputs, topic)}
        current = replace(current, inputs={**missing, **current.inputs}, accepted=stored.accepted)
    save_identity(folder, replace(current, accepted=(*current.accepted, *query.accepted)))


def _reads(inputs: KafkaInputs | None, topic: str) -> bool:
    return inputs is None or inputs.reads(topic)


def _warn_of_network_file_system(checkpoint: Path) -> None:
    kind = network_file_system(checkpoint)
    if kind is not None:
        _LOG.warning(
            "%s is on a network file system (%s), whose locks may not reach other hosts: make sure "
            "that only one host uses it",
            *(checkpoint, kind),
        )


def _inputs_of(query: QueryDescription, settings: Settings) -> KafkaInputs | None:
    """None if the plan is not known."""
    if query.rows is None:
        return None
    plan = query.rows._jdf.queryExecution().analyzed()  # noqa: SLF001
    return KafkaInputs(plan, settings.bootstrap_servers)


def _identity(query: QueryDescription, delivery: str | None, settings: Settings) -> QueryIdentity:
    """The identity without its inputs."""
    names = [name_of(each) for each in query.outputs]
    side_topics = {*query.roles.dead_letters, *query.roles.late, *query.roles.parents}
    topics = {each.name for each in names if each.namespace.startswith("kafka:")} - side_topics
    tables = {each.name for each in names if not each.namespace.startswith("kafka:")}
    found = find_topics(topics, settings.kafka)
    ids = {topic: found[topic].id if topic in found else "" for topic in topics}
    outputs = {**dict.fromkeys(tables, ""), **ids}
    return QueryIdentity(query.job_name, delivery, {}, outputs)


def _ids_of_inputs(inputs: KafkaInputs, folder: Path, settings: Settings) -> dict[str, str]:
    names = set(inputs.names)
    state = read_checkpoint(folder)
    if state is not None:
        names |= {topic for topic in state.planned if inputs.reads(topic)}
    if inputs.has_patterns:
        names |= {each.name for each in list_topics(settings.kafka) if inputs.reads(each.name)}
    return {name: topic.id for name, topic in find_topics(names, settings.kafka).items()}


def _restart(folder: Path, topics: Collection[str], settings: Settings) -> None:
    """Let the query read recreated topics from their beginning."""
    if topics:
        reset_topics(
            folder,
            {
                topic: {
                    each.partition: each.first for each in partition_states(topic, settings.kafka)
                }
                for topic in topics
            },
        )


def _was_accepted(stored: QueryIdentity | None) -> bool:
    return stored is not None and any(each["change"] == DUPLICATES for each in stored.accepted)


def _written_output(
    query: QueryDescription, delivery: str | None, inputs: KafkaInputs | None, settings: Settings
) -> str | None:
    """The output that this job has written from these inputs: a record, or a table."""
    names = [name_of(each) for each in query.outputs]
    if query.has_rows_of is not None:
        topics = inputs.names if inputs and not inputs.has_patterns else None
        written = query.has_rows_of(topics)
        return f"table {names[0].name}" if written else None
    if delivery not in ONCE_MODES:
        return None
    kafka = [each.name for each in names if each.namespace.startswith("kafka:")]
    record = _record_of(query.job_name, kafka, inputs, settings)
    return None if record is None else str(record.address)


def _lost_checkpoint(
    checkpoint: Path | str, job_name: str, output: str | None, accept: Collection[str]
) -> list[IdentityDifference]:
    """Refuse a new checkpoint if the job has written to the output: it would do so again."""
    if output is None:
        return []
    if DUPLICATES not in accept:
        raise CheckpointError(
            f"{checkpoint} is new, but {output} was written by the job {job_name!r}: its "
            "checkpoint was lost, or is elsewhere",
            hint="restore the checkpoint, or choose the --checkpoint that wrote the output. To "
            f"write the output again: --accept {DUPLICATES}, or LineageJob(accept=[…])",
            checkpoint=str(checkpoint),
            output=output,
        )
    return [IdentityDifference(DUPLICATES, "the output", output, "written again")]


def _record_of(
    job_name: str, topics: Iterable[str], inputs: KafkaInputs | None, settings: Settings
) -> Record | None:
    """One of the last records that this job made from these inputs, without replays."""
    for topic in find_topics(topics, settings.kafka):
        try:
            if not any(end_offsets(topic, settings.kafka).values()):
                continue
            reads = partial(_reads, inputs)
            for record, _ in recent_records(topic, job_name, reads, settings.kafka):
                return record
        except AuthorizationError as error:
            _LOG.warning("a lost checkpoint can't be noticed: %s", error.message)
    return None
