"""The checks of `headwater doctor --kafka`: the connection, and the topics of one job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from headwater.errors import AuthorizationError, CheckFailedError, HeadwaterError, InputError
from headwater.kafka import partition_states, ping
from headwater.kafka.acls import JOBS, granted, need_of
from headwater.kafka.errors import principal_of
from headwater.kafka.inspection import TopicDetails, inspect_topic
from headwater.model.topic_names import DEAD_LETTER_SUFFIX, LATE_SUFFIX, PARENTS_SUFFIX
from headwater.service.check_result import CheckResult
from headwater.settings import Settings
from headwater.settings.kafka_security import client_properties
from headwater.storage.checkpoint import (
    Offsets,
    QueryIdentity,
    checkpoint_location,
    read_checkpoint,
    read_identity,
)

_TRANSACTIONAL = "transactional"
_SUFFIXES = (DEAD_LETTER_SUFFIX, LATE_SUFFIX, PARENTS_SUFFIX)
_HOUR_MS = 3_600_000


def run_kafka_checks(settings: Settings, job: str | None) -> Iterator[CheckResult]:
    """Check the connection; with a job, also the topics in its checkpoint. Nothing is written."""
    connected = _checked("kafka", lambda: _connection(settings))
    yield connected
    if not connected.ok or job is None:
        return
    checkpoint = Path(checkpoint_location(job, None, settings))
    try:
        identity = read_identity(checkpoint)
        if identity is None:
            raise InputError(
                f"no checkpoint of job {job!r} at {checkpoint}",
                hint="--job is the name of a job that has run with this HEADWATER_HOME",
            )
    except HeadwaterError as error:
        yield CheckResult("job", False, error.message, error.hint)
        return
    yield CheckResult("job", True, _description(identity))
    yield from _check_topics(identity, settings)
    yield from _check_retention(identity, checkpoint, settings)
    yield _isolation(identity, settings)


def _checked(name: str, check: Callable[[], str]) -> CheckResult:
    try:
        return CheckResult(name, True, check())
    except HeadwaterError as error:
        return CheckResult(name, False, error.message, error.hint)


def _connection(settings: Settings) -> str:
    properties = client_properties(settings.kafka)
    protocol = properties.get("security.protocol", "PLAINTEXT")
    principal = principal_of(properties) or "the principal of its certificate or token"
    brokers = ping(settings.kafka)
    return f"{brokers} brokers at {settings.bootstrap_servers}, {protocol}, as {principal}"


def _description(identity: QueryIdentity) -> str:
    outputs = ", ".join(identity.outputs) or "nothing"
    mode = f" ({identity.delivery})" if identity.delivery else ""
    return f"{identity.job} reads {', '.join(identity.inputs)} and writes {outputs}{mode}"


def _check_topics(identity: QueryIdentity, settings: Settings) -> Iterator[CheckResult]:
    needed = _needed(identity)
    outputs = _output_topics(identity)
    for name in dict.fromkeys((*identity.inputs, *outputs, *needed)):
        try:
            details = inspect_topic(name, settings.kafka)
        except AuthorizationError:
            # Not even Describe, which the others include.
            yield _permissions(name, frozenset(), needed.get(name, frozenset()), settings)
            continue
        except HeadwaterError as error:
            yield CheckResult("topic", False, error.message, error.hint)
            continue
        if details is None:
            # Side topics may be missing until they are needed.
            created = settings.jobs.create_topics or name not in outputs
            missing = name in identity.inputs or not created
            text = f"{name} does not exist"
            yield CheckResult("topic", not missing, text, f"`headwater topics create {name}`")
            continue
        if details.operations:
            yield _permissions(name, details.operations, needed.get(name, frozenset()), settings)
        else:
            text = f"{name}: the cluster does not report permissions"
            yield CheckResult("permissions", True, text)
        if name not in identity.inputs:
            yield _replicas(details)


def _output_topics(identity: QueryIdentity) -> list[str]:
    # Tables have no id.
    return [name for name, id_ in identity.outputs.items() if id_] if identity.delivery else []


def _needed(identity: QueryIdentity) -> dict[str, frozenset[str]]:
    """The operations that the job needs, by topic."""
    known = {need.what for need in JOBS}
    mode = identity.delivery if identity.delivery in known else None
    what = mode or "jobs that write to tables, archives and the index"
    outputs = [each for each in _output_topics(identity) if not each.endswith(_SUFFIXES)]
    needed: dict[str, set[str]] = {}
    for source in identity.inputs:
        for output in outputs or [""]:
            for access in granted([need_of(what)], {"INPUT": source, "OUTPUT": output}):
                if access.resource == "topic":
                    needed.setdefault(access.name, set()).add(access.operation)
    return {name: frozenset(operations) for name, operations in needed.items()}


def _permissions(
    topic: str, operations: frozenset[str], needed: frozenset[str], settings: Settings
) -> CheckResult:
    missing = sorted(needed - operations)
    if not missing:
        return CheckResult("permissions", True, f"{topic}: {', '.join(sorted(needed))}")
    principal = principal_of(client_properties(settings.kafka)) or "User:NAME"
    options = " ".join(f"--operation {each}" for each in missing)
    hint = f"`headwater kafka acls --add --allow-principal {principal} {options} --topic {topic}`"
    return CheckResult("permissions", False, f"{topic}: {', '.join(missing)} missing", hint)


def _replicas(details: TopicDetails) -> CheckResult:
    minimum = details.min_in_sync
    text = f"{details.name}: {details.replicas} replicas, {details.in_sync} in sync"
    if minimum is None:
        return CheckResult("replicas", True, f"{text}; min.insync.replicas is not known")
    text = f"{text}, min.insync.replicas {minimum}"
    alter = f"`headwater kafka configs --alter --topic {details.name} --add-config"
    if details.in_sync < minimum:
        hint = f"writes fail until brokers are back; {alter} min.insync.replicas=N` lowers it"
        return CheckResult("replicas", False, text, hint)
    if minimum >= details.replicas > 1:
        hint = f"one broker that stops ends all writes: {alter} min.insync.replicas=N` lowers it"
        return CheckResult("replicas", False, text, hint)
    if details.replicas > 1 and minimum == 1:
        hint = f"a record may be on one broker only: {alter} min.insync.replicas=2`"
        return CheckResult("replicas", False, text, hint)
    if details.replicas == 1:
        text = f"{text}: the records are lost with their broker"
    return CheckResult("replicas", True, text)


def _check_retention(
    identity: QueryIdentity, checkpoint: Path, settings: Settings
) -> Iterator[CheckResult]:
    try:
        state = read_checkpoint(checkpoint)
    except HeadwaterError as error:
        yield CheckResult("retention", False, error.message, error.hint)
        return
    if state is None:
        return
    next_offsets = state.committed or state.started
    for topic in identity.inputs:
        yield _checked("retention", lambda topic=topic: _retention(topic, next_offsets, settings))  # type: ignore[misc]


def _retention(topic: str, next_offsets: Offsets, settings: Settings) -> str:
    """How many records the job has not read yet, if all of them still exist."""
    details = inspect_topic(topic, settings.kafka)
    read: Mapping[int, int] = next_offsets.get(topic, {})
    unread = 0
    for state in partition_states(topic, settings.kafka):
        begin = read.get(state.partition, state.first)
        if begin < state.first:
            raise CheckFailedError(
                f"{topic}/{state.partition}: the job continues at offset {begin}, but the first "
                f"one is {state.first}: {state.first - begin} offsets were deleted before they "
                "were read",
                hint="replay them from an archive, and start the job with another --checkpoint",
            )
        unread += state.end - begin
    kept = None if details is None else details.retention_ms
    limit = "retention.ms is not known (DescribeConfigs)"
    if kept is not None:
        limit = "kept without limit" if kept < 0 else f"kept for {kept / _HOUR_MS:g} h"
    return f"{topic}: {unread} records to read, none deleted before; {limit}"


def _isolation(identity: QueryIdentity, settings: Settings) -> CheckResult:
    given = {
        "HEADWATER_KAFKA__CLIENT": settings.kafka.client.get("isolation.level"),
        "HEADWATER_SPARK__KAFKA_OPTIONS": settings.spark.kafka_options.get("isolation.level"),
    }
    for variable, value in given.items():
        if value not in {None, "read_committed"}:
            return CheckResult(
                "isolation", False, f"isolation.level={value}", f"remove it from {variable}"
            )
    text = "Headwater reads committed records only"
    if identity.delivery == _TRANSACTIONAL:
        text += f"; other consumers of {', '.join(identity.outputs)} need "
        text += "isolation.level=read_committed, which a broker does not report"
    return CheckResult("isolation", True, text)
