"""Queries about single records, from Kafka, the archives and the lineage index.

They do not start Spark, and write nothing.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from headwater.errors import (
    BrokerUnavailableError,
    HeadwaterError,
    InputError,
    KafkaRefusedError,
)
from headwater.model import Address
from headwater.settings import Settings
from headwater.tracing import RecordState, TraceNode, impact, trace
from headwater.tracing.lag import index_lag

if TYPE_CHECKING:
    from headwater.replay.planning import PlannedReplay
    from headwater.replay.request import Request

# More records than a user can inspect; tracing them takes a second or two.
_MAX_RECORDS = 500
# Time limit for counting results in the target: without an index the topic has to be read.
_COUNT_SECONDS = 5.0
_RANGES_SHOWN = 200
# Timeout of one request to Kafka: with the attempts of a query, less than a user waits.
_KAFKA_SECONDS = 6.0
# After Kafka did not respond, queries fail at once for this time: those that were waiting for a
# thread would wait for the same timeout, one after the other.
_UNAVAILABLE_SECONDS = 5.0
_PLACEHOLDER = "path/to/job.py:TRANSFORM"
_INSTALL = "pip install 'headwater[index]'"

Json = dict[str, Any]


class KafkaRecordQueries:
    """Queries for the records of one cluster and one home."""

    def __init__(self, settings: Settings, *, transforms: Collection[str] = ()) -> None:
        """Args:
        transforms: names of transforms that `headwater replay` accepts.
        """
        seconds = min(settings.kafka.timeout_seconds, _KAFKA_SECONDS)
        kafka = settings.kafka.model_copy(update={"timeout_seconds": seconds})
        self._settings = settings.model_copy(update={"kafka": kafka})
        self._transforms = transforms
        self._unavailable_until = 0.0

    def ancestry(self, topic: str, partition: int, offset: int) -> Json | None:
        root = self._root(Address(topic, partition, offset))
        return None if root is None else root.as_json(values=True)

    def impact(self, topic: str, partition: int, offset: int) -> Json | None:
        address = Address(topic, partition, offset)
        self._check_available()
        try:
            report = impact(address, self._settings, max_records=_MAX_RECORDS)
            if report.root is not None and _does_not_exist(report.root):
                return None
            return report.as_json() | index_lag(report.indexed, self._settings).as_json()
        except HeadwaterError as error:
            raise self._without_addresses(error) from None

    def replay(self, topic: str, partition: int, offset: int) -> Json | None:
        address = Address(topic, partition, offset)
        root = self._root(address)
        if root is None:
            return None
        if root.job_name is None:
            return _no_command(root.reason or "no job wrote this record: it is a source record")
        within = {each.topic for each in root.ranges}
        sources = sorted({parent.address.topic for parent in root.parents} | within)
        if not sources:
            return _no_command(root.reason or "its lineage header lists no parents")
        note = None
        if len(sources) > 1:
            note = f"its parents are in {len(sources)} topics; a replay reads one of them"
        source = sources[0]
        if within:
            note = "its parents are within ranges; the replay reads all records of them"
        shipped = root.job_name in self._transforms
        answer: Json = {
            "command": _command(root.job_name, shipped, source, address, bool(within)),
            "complete": shipped,
            "logic": root.job_name if shipped else None,
            "note": note,
            "dryRun": None,
            "refused": None,
        }
        try:
            answer["dryRun"] = self._dry_run(root.job_name, shipped, source, address, bool(within))
        except HeadwaterError as error:
            shown = self._without_addresses(error)
            answer["refused"] = {"message": shown.message, "hint": shown.hint}
        except ImportError as error:
            missing = f"reading an archive needs {error.name}, which is not installed"
            answer["refused"] = {"message": missing, "hint": _INSTALL}
        return answer

    def _root(self, address: Address) -> TraceNode | None:
        self._check_available()
        try:
            root = trace(address, self._settings, max_records=_MAX_RECORDS, values=True)
        except HeadwaterError as error:
            raise self._without_addresses(error) from None
        return None if _does_not_exist(root) else root

    def _dry_run(
        self, job_name: str, shipped: bool, source: str, address: Address, allow_ranges: bool
    ) -> Json:
        from headwater.replay.planning import make_plan
        from headwater.replay.request import Request
        from headwater.replay.selection import Selection
        from headwater.replay.transform import Transform

        request = Request(
            name=job_name if shipped else _PLACEHOLDER,
            # The selection of rows does not depend on the transform.
            transform=Transform(job_name, _not_run, input_topic=source, output_topic=address.topic),
            selection=Selection(source, inputs_of=(address,)),
            job_version=self._settings.jobs.version,
            target=address.topic,
            allow_ranges=allow_ranges,
        )
        planned = make_plan(request, self._settings, _no_session)
        return self._dry_run_json(planned, request, shipped)

    def _dry_run_json(self, planned: PlannedReplay, request: Request, shipped: bool) -> Json:
        plan = planned.plan
        ranges = [
            {"partition": partition, "first": first, "last": last}
            for partition, of in sorted(plan.offsets.items())
            for first, last in of.ranges()
        ]
        return {
            "replayId": plan.replay_id if shipped else None,
            "topic": plan.topic,
            "target": plan.target,
            "jobVersion": request.job_version,
            "records": plan.record_count,
            "offsets": ranges[:_RANGES_SHOWN],
            "files": len(planned.files),
            "archiveVersion": planned.archive_version,
            "behind": {str(partition): number for partition, number in planned.lag.items()},
            "resultsThere": self._results_there(planned),
            "state": "new" if planned.existing is None else planned.existing.state(),
        }

    def _results_there(self, planned: PlannedReplay) -> int | None:
        from headwater.replay.results import count_results

        deadline = time.monotonic() + _COUNT_SECONDS

        def check_deadline(topic: str, done: int, total: int) -> None:
            if time.monotonic() > deadline:
                raise _TooLong

        try:
            return count_results(planned.plan, self._settings, check_deadline)
        except _TooLong:
            return None

    def _without_addresses(self, error: HeadwaterError) -> HeadwaterError:
        """The error for remote clients: without addresses and folders of this machine."""
        if isinstance(error, BrokerUnavailableError):
            self._unavailable_until = time.monotonic() + _UNAVAILABLE_SECONDS
            return _kafka_unavailable()
        if isinstance(error, KafkaRefusedError):
            return type(error)(
                "Kafka refuses the request of the service", hint="check its ACLs and credentials"
            )
        hint = self._without_folders(error.hint) if error.hint else None
        return type(error)(self._without_folders(error.message), hint=hint)

    def _without_folders(self, text: str) -> str:
        settings = self._settings
        folders = [settings.home_dir, settings.archive.folder, settings.index.table]
        folders += settings.index.tables
        shown = {str(each) for folder in folders if folder for each in (folder, folder.absolute())}
        # The longest first: one may contain another.
        for folder in sorted(shown, key=len, reverse=True):
            text = text.replace(folder, "…")
        return text

    def _check_available(self) -> None:
        if time.monotonic() < self._unavailable_until:
            raise _kafka_unavailable()


class _TooLong(Exception):
    """Counting exceeded its time limit."""


def _kafka_unavailable() -> BrokerUnavailableError:
    return BrokerUnavailableError(
        "Kafka does not respond to the service", hint="see `headwater status`"
    )


def _does_not_exist(node: TraceNode) -> bool:
    return node.state is RecordState.UNVERIFIED and node.absence is not None


def _no_command(reason: str) -> Json:
    hint = "choose a record that a job derived from it: see its impact"
    refused = {"message": reason, "hint": hint}
    empty: Json = dict.fromkeys(("command", "logic", "note", "dryRun"))
    return {**empty, "complete": False, "refused": refused}


def _command(
    job_name: str, shipped: bool, source: str, address: Address, allow_ranges: bool
) -> str:
    words = ["headwater", "replay", job_name if shipped else _PLACEHOLDER]
    words += ["--from", source, "--to", address.topic]
    if not shipped:
        words += ["--job-name", job_name]
    words += ["--inputs-of", str(address)]
    words += ["--allow-ranges"] if allow_ranges else []
    words += ["--dry-run"]
    return shlex.join(words)


def _not_run(rows: Any) -> Any:
    raise AssertionError("planning must not run the transform")


def _no_session() -> Any:
    raise InputError("this selection needs Spark, which the service does not start")
