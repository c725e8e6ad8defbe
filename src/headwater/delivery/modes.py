"""Delivery modes: ways to write a query's records to Kafka. See docs/concepts/delivery.md.

exactly-once   each record once, on one driver; contiguous offsets, no isolation level needed
transactional  each record once, also on clusters; consumers must use read_committed
idempotent     up to five requests in flight; retries make no duplicates as long as the broker
               knows the producer's last batches
batched        one request in flight
individual     a record is sent after the acknowledgement of the previous one
"""

from __future__ import annotations

import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.delivery.committed_batches import check_committed_batches
from headwater.delivery.errors.letters import failed_records, send_failed, without_failed
from headwater.delivery.output_offsets import OutputOffsets, obstacle_in
from headwater.delivery.sink import SinkTarget, close_producers_of, start
from headwater.delivery.written import without_written
from headwater.errors import InputError, QueryFailedError, UnsafeDeliveryError
from headwater.settings import Settings, fault_points
from headwater.spark.configuration import configured
from headwater.spark.query_runner import QueryRun, local_checkpoint, run_until_stopped
from headwater.spark.source import refuse_unsafe_properties
from headwater.storage.checkpoint import read_progress
from headwater.storage.failed_records import FailedRecords

_LOG = logging.getLogger(__name__)

# Measured: with Kafka's defaults the producer sends small uncompressed batches and is the
# bottleneck of a copying job; with these it is not.
PRODUCER = {
    "kafka.linger.ms": "20",
    "kafka.batch.size": str(256 * 1024),
    "kafka.compression.type": "lz4",
    "kafka.acks": "all",
    # With a full buffer, block as long as a delivery may take instead of failing.
    "kafka.max.block.ms": "120000",
}
# Brokers detect retries by the last five batches of each producer. After an unclean shutdown a
# broker recovers only the last one, so earlier batches that are retried are accepted again.
ONE_IN_FLIGHT = {
    "kafka.enable.idempotence": "true",
    "kafka.max.in.flight.requests.per.connection": "1",
}
# A task that waits for an acknowledgement needs no core.
_WAITING_TASKS = max(8, os.cpu_count() or 1)
_TRIGGERS = {"processingTime", "availableNow", "once"}
# A broker that lost the state of a producer aborts its transaction; a producer without
# transactions would recover by itself.
_TRANSACTION_LOST = (
    "OutOfOrderSequenceException",
    "UnknownProducerIdException",
    "InvalidPidMappingException",
    "TransactionAbortableException",
)
_TRANSACTION_ATTEMPTS = 4


@dataclass(frozen=True)
class Delivery:
    """A query to deliver: its rows, its target and its run."""

    spark: SparkSession
    rows: DataFrame
    target: SinkTarget
    settings: Settings
    run: QueryRun
    # Configuration of the Spark session while the query is started, besides the mode's.
    configuration: Mapping[str, str] = field(default_factory=dict)


# Several queries may be started at once, each with its own configuration of the session.
_starting = threading.Lock()


class Mode(ABC):
    """How records are written to Kafka."""

    name: str
    # Whether it finds the records that it has written by their parents, which must be exact.
    identifies_records = False
    # Whether all requests of a failed batch have to be completed before it is run again.
    needs_completed_requests = False

    @abstractmethod
    def options(self) -> Mapping[str, str]:
        """Options of the sink: its mode and the producer's properties."""

    def source_options(self, given: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
        """Options of the sources of a job with this mode, besides the given ones."""
        return {}

    def session_options(self, settings: Settings) -> Mapping[str, str]:
        """Spark configuration for a session that is started for this mode."""
        return {}

    def query_configuration(self) -> Mapping[str, str]:
        """Configuration of the Spark session while a query is started; restored afterwards."""
        return {}

    def refuse_unsafe(self, spark: SparkSession, target: SinkTarget, settings: Settings) -> None:
        """Refuse settings under which the mode can't keep its guarantee.

        Raises:
            UnsafeDeliveryError: names the setting and its value.
        """
        refuse_unsafe_properties(self.name, self.options(), settings)
        for kind in set(target.trigger) - _TRIGGERS:
            raise unsafe_delivery_error(
                self.name, "trigger", kind, "it has no micro-batches that can be completed"
            )

    def deliver(self, delivery: Delivery) -> None:
        """Run the query until it ends or is stopped.

        Raises:
            CheckpointError: the checkpoint is damaged.
            QueryFailedError: the query failed.
        """
        with local_checkpoint(delivery.target.checkpoint, delivery.spark) as folder:
            interrupted = read_progress(folder).cut_off is not None
        if interrupted:
            self._finish_without_failed(delivery)
        if not delivery.run.stop.requested:
            self._run_query(delivery, delivery.rows)

    def _finish_without_failed(self, delivery: Delivery) -> None:
        """Run the interrupted batch without its failed records, if it has any."""
        failed, query = failed_records(delivery.target, delivery.spark, delivery.run.id)
        if failed is not None and failed.found:
            self._send_failed(failed, query, delivery, set())
            # `once` runs only the batch that the checkpoint has started, then stops.
            rows = without_failed(delivery.rows, failed)
            self._run_query(delivery, rows, trigger={"once": True})

    def _send_failed(
        self, failed: FailedRecords, query: str, delivery: Delivery, written: Collection[str]
    ) -> None:
        """Send the dead letters of failed records, without those that are written."""
        with configured(delivery.spark, self.query_configuration()):
            send_failed(
                delivery.rows,
                failed,
                query,
                delivery.target,
                delivery.run.id,
                self.options(),
                delivery.settings,
                written,
            )

    def _run_query(
        self, delivery: Delivery, rows: DataFrame, trigger: Mapping[str, Any] | None = None
    ) -> None:
        run, settings = delivery.run, delivery.settings
        configuration = {**delivery.configuration, **self.query_configuration()}
        with _starting, configured(delivery.spark, configuration):
            query = start(rows, delivery.target, run.id, self.options(), settings, trigger=trigger)
        try:
            run_until_stopped(query, run, settings)
        finally:
            close_producers_of(delivery.spark, str(query.id))


class Idempotent(Mode):
    """Several requests in flight; Kafka discards duplicates of retries."""

    name = "idempotent"

    def options(self) -> Mapping[str, str]:
        return {
            "mode": "pipelined",
            **PRODUCER,
            "kafka.enable.idempotence": "true",
            "kafka.max.in.flight.requests.per.connection": "5",
        }


class Batched(Mode):
    """One request in flight, so that retries keep the order."""

    name = "batched"

    def options(self) -> Mapping[str, str]:
        return {
            "mode": "pipelined",
            **PRODUCER,
            "kafka.enable.idempotence": "false",
            "kafka.max.in.flight.requests.per.connection": "1",
        }


class Individual(Mode):
    """Each record waits for the acknowledgement of the previous one."""

    name = "individual"

    def __init__(self, pause_seconds: float = 0.0) -> None:
        if pause_seconds < 0:
            raise InputError(f"a pause can't be negative: {pause_seconds}")
        self._pause_seconds = pause_seconds

    def session_options(self, settings: Settings) -> Mapping[str, str]:
        configured = settings.spark.master != "local[*]"
        return {} if configured else {"spark.master": f"local[{_WAITING_TASKS}]"}

    def options(self) -> Mapping[str, str]:
        return {
            "mode": "individual",
            "pauseMillis": str(round(self._pause_seconds * 1000)),
            **PRODUCER,
            # No other record can share the request, so lingering only adds latency.
            "kafka.linger.ms": "0",
            "kafka.batch.size": str(16 * 1024),
            "kafka.compression.type": "none",
            "kafka.enable.idempotence": "true",
            "kafka.max.in.flight.requests.per.connection": "1",
        }


class Transactional(Mode):
    """Transactions: the records of a task and its batch id are committed atomically."""

    name = "transactional"

    def options(self) -> Mapping[str, str]:
        return {
            "mode": "transactional",
            **PRODUCER,
            **ONE_IN_FLIGHT,
            # The longest that a task may take. Kafka's own limit is 15 minutes.
            "kafka.transaction.timeout.ms": "600000",
        }

    def query_configuration(self) -> Mapping[str, str]:
        # A rerun of a batch must have the same tasks.
        return {"spark.sql.adaptive.enabled": "false"}

    def deliver(self, delivery: Delivery) -> None:
        """Retries a batch whose transaction the broker aborted, a limited number of times."""
        checkpoint, accept = delivery.target.checkpoint, delivery.target.accept
        with local_checkpoint(checkpoint, delivery.spark) as folder:
            check_committed_batches(checkpoint, folder, accept, delivery.settings.kafka)
        for attempts_left in reversed(range(_TRANSACTION_ATTEMPTS)):
            try:
                super().deliver(delivery)
                return
            except QueryFailedError as failed:
                lost = next((name for name in _TRANSACTION_LOST if name in failed.message), None)
                if lost is None or not attempts_left or delivery.run.stop.requested:
                    raise
                _LOG.warning("the broker aborted a transaction (%s); retrying its batch", lost)

    def refuse_unsafe(self, spark: SparkSession, target: SinkTarget, settings: Settings) -> None:
        super().refuse_unsafe(spark, target, settings)
        if target.dead_letter_failures:
            raise InputError(
                "transactional delivery does not support --on-failure dead-letter: a record that "
                "Kafka rejects aborts its transaction",
                hint="use --on-failure stop, or lower HEADWATER_JOBS__MAX_VALUE_BYTES, so that "
                "large values go to the dead letter topic before they are sent",
            )


def unsafe_delivery_error(mode: str, setting: str, value: str, why: str) -> UnsafeDeliveryError:
    return UnsafeDeliveryError(
        f"{mode} delivery can't be guaranteed with {setting}={value}: {why}",
        hint="use a local master without retries, such as spark.master=local[*], "
        "spark.speculation=false and a micro-batch trigger; "
        "on a cluster use --delivery transactional",
        setting=setting,
        value=value,
    )


class ExactlyOnce(Idempotent):
    """The idempotent mode; a rerun of a batch skips records that the first attempt wrote.

    Spark runs a batch again if the driver died during the batch. The rerun reads the output after
    the recorded offsets (`output_offsets`) and skips the records that it finds. A normal batch has
    no overhead: no extra pass, no foreachBatch, contiguous offsets, and consumers need no
    isolation level. The conditions are checked before the query starts: one driver per checkpoint,
    no task retries, no speculation; and a process whose batch failed does not continue.
    """

    name = "exactly-once"
    identifies_records = True
    needs_completed_requests = True

    def options(self) -> Mapping[str, str]:
        return {**super().options(), **ONE_IN_FLIGHT}

    def source_options(self, given: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
        # The identities of an interrupted batch have to fit into memory.
        limited = "maxoffsetspertrigger" in {name.lower() for name in given}
        return {} if limited else {"maxOffsetsPerTrigger": settings.jobs.max_records_per_batch}

    def refuse_unsafe(self, spark: SparkSession, target: SinkTarget, settings: Settings) -> None:
        super().refuse_unsafe(spark, target, settings)
        found = obstacle_in(spark, target.checkpoint)
        if found is not None:
            raise unsafe_delivery_error(self.name, *found)

    def deliver(self, delivery: Delivery) -> None:
        checkpoint = Path(delivery.target.checkpoint)
        target = delivery.target
        topics = target.topics.existing(delivery.settings)
        output = OutputOffsets(checkpoint, topics, delivery.settings, target.accept)
        unfinished = read_progress(checkpoint).cut_off
        output.refuse_unknown_runs(target.job_name)
        output.begin_run(delivery.run.id)
        if unfinished is not None:
            self._finish(unfinished, delivery, output)
        if not delivery.run.stop.requested:
            with output.record_while_running():
                self._run_query(delivery, delivery.rows)

    def _finish(self, batch: int, delivery: Delivery, output: OutputOffsets) -> None:
        """Run the unfinished batch again, without the records that it has already written."""
        stop, target = delivery.run.stop, delivery.target
        written = output.written_by(batch, stopped=lambda: stop.requested)
        if stop.requested:
            # The output was not read to the end; the next start reads it again.
            return
        _LOG.info(
            "batch %d was interrupted; %d of its records are already written", batch, len(written)
        )
        fault_points.reach("before_recovery")
        failed, query = failed_records(delivery.target, delivery.spark, delivery.run.id)
        rows = delivery.rows
        if failed is not None and failed.found:
            self._send_failed(failed, query, delivery, written)
            rows = without_failed(rows, failed)
        rows = without_written(
            rows, written, target.job_name, by_first_parent=target.one_per_first_parent
        )
        # `once` runs only the batch that the checkpoint has started, then stops.
        self._run_query(delivery, rows, trigger={"once": True})
        fault_points.reach("after_recovery")


_MODES: dict[str, type[Mode]] = {
    mode.name: mode for mode in (ExactlyOnce, Transactional, Idempotent, Batched, Individual)
}
MODE_NAMES = tuple(_MODES)
# Former names, which keep working; stored replay plans contain them.
FORMER_MODE_NAMES = {"strict": Transactional.name}


def delivery_mode(name: str) -> Mode:
    """The mode of that name with its defaults. A former name works, and logs a warning.

    Raises:
        InputError: no mode has this name.
    """
    if name in FORMER_MODE_NAMES:
        current = FORMER_MODE_NAMES[name]
        _LOG.warning("delivery mode `%s` is deprecated: use `%s`", name, current)
        name = current
    if name not in _MODES:
        raise InputError(f"unknown delivery mode: {name!r}", hint=f"known: {', '.join(MODE_NAMES)}")
    return _MODES[name]()
