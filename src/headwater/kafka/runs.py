"""The topic with the jobs of runs: written when a run starts, read when a record has no stamp, and
for how exact the lineage of each job's last run is."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from headwater.errors import HeadwaterError, InputError, TopicNotFoundError
from headwater.kafka.client import create_topic, end_offsets, find_topic
from headwater.kafka.consumer import read_topic
from headwater.kafka.producer import RecordProducer
from headwater.model.run_record import RunRecord, decode_run, encode_run
from headwater.settings.kafka import KafkaSettings

_LOG = logging.getLogger(__name__)

# Some 30 MB; the oldest are forgotten.
_MAX_RUNS = 100_000
# A run that is not known may just have started; forged run ids must not make every record a read.
_REFRESH_SECONDS = 5.0
# Of the last runs, and of their jobs: what `last_runs` reads and returns.
_MAX_READ = 20_000
_MAX_JOBS = 1_000


def write_run(run_id: str, run: RunRecord, settings: KafkaSettings, *, create: bool) -> bool:
    """Write the record of a run; returns whether it was written.

    Errors are logged, and never stop a job: queries then show the run without its job.

    Args:
        create: create the topic if it does not exist.
    """
    topic = settings.runs_topic
    try:
        if create and find_topic(topic, settings) is None:
            _create(topic, settings)
        with RecordProducer(settings) as producer:
            producer.send(topic, encode_run(run), run_id.encode())
    except HeadwaterError as error:
        _LOG.warning("the record of run %s was not written to %s: %s", run_id, topic, error)
        return False
    return True


def _create(topic: str, settings: KafkaSettings) -> None:
    try:
        create_topic(topic, 1, settings, config={"cleanup.policy": "compact"})
    except InputError:
        # Another job may have created it in the meantime.
        if find_topic(topic, settings) is None:
            raise


def last_runs(settings: KafkaSettings) -> list[RunRecord]:
    """The last run of each job whose coverage is known, sorted by name.

    Raises:
        BrokerUnavailableError: Kafka did not respond within `kafka.timeout_seconds`.
    """
    topic = settings.runs_topic
    try:
        ends = end_offsets(topic, settings)
    except TopicNotFoundError:
        return []
    start = {partition: max(0, end - _MAX_READ) for partition, end in ends.items()}
    last: dict[str, RunRecord] = {}
    for record in read_topic(topic, settings, start=start, until=ends):
        run = decode_run(record.value)
        if run is None or run.coverage is None:
            continue
        known = last.get(run.job_name)
        if known is None and len(last) == _MAX_JOBS:
            continue
        if known is None or (run.started_ms or 0) >= (known.started_ms or 0):
            last[run.job_name] = run
    return [last[name] for name in sorted(last)]


class KafkaRuns:
    """The runs in the topic; it is read when the first one is looked up.

    Args:
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self, settings: KafkaSettings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._runs: dict[str, RunRecord] = {}
        self._position: dict[int, int] = {}
        self._refresh_at: float | None = None

    def find(self, run_id: str) -> RunRecord | None:
        """The job of a run; None if it is not known.

        Raises:
            BrokerUnavailableError: Kafka did not respond within `kafka.timeout_seconds`.
        """
        if run_id not in self._runs:
            self._refresh()
        return self._runs.get(run_id)

    def of_job(self, job_name: str) -> set[str]:
        """The ids of the runs of a job."""
        self._refresh()
        return {run_id for run_id, run in self._runs.items() if run.job_name == job_name}

    def _refresh(self) -> None:
        if self._refresh_at is not None and self._clock() < self._refresh_at:
            return
        try:
            ends = end_offsets(self._settings.runs_topic, self._settings)
        except TopicNotFoundError:
            ends = {}
        start = {p: min(self._position.get(p, 0), end) for p, end in ends.items()}
        if any(start[p] < end for p, end in ends.items()):
            for record in read_topic(
                self._settings.runs_topic, self._settings, start=start, until=ends
            ):
                self._add(record.key, record.value)
        self._position = ends
        self._refresh_at = self._clock() + _REFRESH_SECONDS

    def _add(self, key: bytes | None, value: bytes | None) -> None:
        run = decode_run(value)
        if key is None or run is None or len(key) > 64:
            return
        self._runs.pop(key.decode("ascii", "replace"), None)
        # The coverage may be large, and no lookup needs it.
        self._runs[key.decode("ascii", "replace")] = replace(run, coverage=None)
        if len(self._runs) > _MAX_RUNS:
            del self._runs[next(iter(self._runs))]
