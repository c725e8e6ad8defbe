"""What the lineage service is asked about single records, answered from Kafka, the archives and
the index of edges. No Spark is started, and nothing is written.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from headwater.errors import BrokerUnavailableError, HeadwaterError, InputError
from headwater.model import Address
from headwater.settings import Settings
from headwater.tracing import State, TraceNode, impact, trace
from headwater.tracing.lag import index_lag

if TYPE_CHECKING:
    from headwater.replay.planning import Planned, Request

# What a person can look at; a walk of so many takes a second or two.
_MAX_RECORDS = 500
# How long results in the target are counted: without an index the topic has to be read for it.
_COUNT_SECONDS = 5.0
_RANGES_SHOWN = 200
_ANY_LOGIC = "path/to/job.py:LOGIC"
_INSTALL = "pip install 'headwater[index]'"

Json = dict[str, Any]


class RecordsOfKafka:
    """Answers for the records of one cluster and one home."""

    def __init__(self, settings: Settings, *, logics: Collection[str] = ()) -> None:
        """Args:
        logics: names that `headwater replay` takes by themselves.
        """
        self._settings = settings
        self._logics = logics

    def ancestry(self, topic: str, partition: int, offset: int) -> Json | None:
        root = self._root(Address(topic, partition, offset))
        return None if root is None else root.as_json(values=True)

    def impact(self, topic: str, partition: int, offset: int) -> Json | None:
        address = Address(topic, partition, offset)
        try:
            found = impact(address, self._settings, max_records=_MAX_RECORDS)
            if found.root is not None and _is_nothing(found.root):
                return None
            return found.as_json() | index_lag(found.indexed, self._settings).as_json()
        except HeadwaterError as error:
            raise self._told(error) from None

    def replay(self, topic: str, partition: int, offset: int) -> Json | None:
        address = Address(topic, partition, offset)
        root = self._root(address)
        if root is None:
            return None
        if root.job_name is None:
            return _no_command("no job made this record: it is a source")
        sources = sorted({parent.address.topic for parent in root.parents})
        if not sources:
            return _no_command(root.reason or "its header names no record that it was made from")
        note = None
        if len(sources) > 1:
            note = f"it was made from {len(sources)} topics; a replay reads one of them"
        source = sources[0]
        shipped = root.job_name in self._logics
        answer: Json = {
            "command": _command(root.job_name, shipped, source, address),
            "complete": shipped,
            "logic": root.job_name if shipped else None,
            "note": note,
            "dryRun": None,
            "refused": None,
        }
        try:
            answer["dryRun"] = self._dry_run(root.job_name, shipped, source, address)
        except HeadwaterError as error:
            told = self._told(error)
            answer["refused"] = {"message": told.message, "hint": told.hint}
        except ImportError as error:
            missing = f"reading an archive needs {error.name}, which is not installed"
            answer["refused"] = {"message": missing, "hint": _INSTALL}
        return answer

    def _root(self, address: Address) -> TraceNode | None:
        try:
            root = trace(address, self._settings, max_records=_MAX_RECORDS, values=True)
        except HeadwaterError as error:
            raise self._told(error) from None
        return None if _is_nothing(root) else root

    def _dry_run(self, job_name: str, shipped: bool, source: str, address: Address) -> Json:
        from headwater.replay.planning import Request, make_plan
        from headwater.replay.selection import Selection
        from headwater.replay.transform import Transform

        request = Request(
            name=job_name if shipped else _ANY_LOGIC,
            # Which rows are meant does not depend on what is made of them.
            logic=Transform(job_name, _not_run, input_topic=source, output_topic=address.topic),
            selection=Selection(source, inputs_of=(address,)),
            job_version=self._settings.jobs.version,
            target=address.topic,
        )
        planned = make_plan(request, self._settings, _no_session)
        return self._dry_run_json(planned, request, shipped)

    def _dry_run_json(self, planned: Planned, request: Request, shipped: bool) -> Json:
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
            "behind": {str(partition): number for partition, number in planned.behind.items()},
            "resultsThere": self._results_there(planned),
            "state": "new" if planned.known is None else planned.known.state(),
        }

    def _results_there(self, planned: Planned) -> int | None:
        from headwater.replay.results import count_results

        deadline = time.monotonic() + _COUNT_SECONDS

        def watch(topic: str, done: int, total: int) -> None:
            if time.monotonic() > deadline:
                raise _TooLong

        try:
            return count_results(planned.plan, self._settings, watch)
        except _TooLong:
            return None

    def _told(self, error: HeadwaterError) -> HeadwaterError:
        """The same for somebody who may be elsewhere: no address and no folder of this machine."""
        if isinstance(error, BrokerUnavailableError):
            return BrokerUnavailableError(
                "Kafka does not answer the service", hint="`headwater status` tells more"
            )
        home = str(self._settings.home_dir)
        hint = error.hint.replace(home, "…") if error.hint else None
        return type(error)(error.message.replace(home, "…"), hint=hint)


class _TooLong(Exception):
    """Counting took longer than anybody waits."""


def _is_nothing(node: TraceNode) -> bool:
    return node.state is State.UNVERIFIED and node.absence is not None


def _no_command(reason: str) -> Json:
    hint = "ask for a record that a job made from it: the impact shows them"
    refused = {"message": reason, "hint": hint}
    nothing: Json = dict.fromkeys(("command", "logic", "note", "dryRun"))
    return {**nothing, "complete": False, "refused": refused}


def _command(job_name: str, shipped: bool, source: str, address: Address) -> str:
    words = ["headwater", "replay", job_name if shipped else _ANY_LOGIC]
    words += ["--from", source, "--to", address.topic]
    if not shipped:
        words += ["--job-name", job_name]
    words += ["--inputs-of", str(address), "--dry-run"]
    return shlex.join(words)


def _not_run(rows: Any) -> Any:
    raise AssertionError("a plan runs no logic")


def _no_session() -> Any:
    raise InputError("this selection needs Spark, which the service does not start")
