"""Ways to write a query's records to Kafka. What each promises: docs/concepts/delivery.md.

    exactly-once   each once, on one driver; offsets without gaps, readers need nothing
    strict         each once, on clusters too: transactions; readers must read committed
    idempotent     up to five requests on their way, a producer's retry doubles nothing as long as
                   the broker remembers them
    batched        one request on its way
    individual     a record is sent when the one before it has been acknowledged

A mode is a small class: which producer it needs, what it refuses, and how it runs a query.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.delivery.sink import Target, close_producers, start
from headwater.errors import InputError, QueryFailedError, UnsafeDeliveryError
from headwater.settings import Settings
from headwater.spark.query_runner import QueryRun, run_until_stopped

_LOG = logging.getLogger(__name__)

# Measured: with Kafka's defaults the producer sends small uncompressed batches and is the
# slowest part of a copying job; with these it is no longer.
PRODUCER = {
    "kafka.linger.ms": "20",
    "kafka.batch.size": str(256 * 1024),
    "kafka.compression.type": "lz4",
    "kafka.acks": "all",
    # A full queue waits as long as a record may be on its way, instead of failing.
    "kafka.max.block.ms": "120000",
}
# A broker that was killed remembers only the last request of each producer: of several that it had
# taken and not yet acknowledged, it takes the earlier ones for new when they are sent again.
KNOWN_AFTER_A_KILL = {
    "kafka.enable.idempotence": "true",
    "kafka.max.in.flight.requests.per.connection": "1",
}
# At once, on one machine: a task that waits for an acknowledgement takes no core.
_WAITING_TASKS = max(8, os.cpu_count() or 1)
_TRIGGERS = {"processingTime", "availableNow", "once"}
# A broker that has lost what it knew of a producer ends the transaction, where one without
# transactions would go on by itself.
_TRANSACTION_LOST = (
    "OutOfOrderSequenceException",
    "UnknownProducerIdException",
    "InvalidPidMappingException",
    "TransactionAbortableException",
)
_TRANSACTION_TRIES = 4


@dataclass(frozen=True)
class Delivery:
    """A query to deliver: its rows, where they go, and the run that delivers them."""

    spark: SparkSession
    rows: DataFrame
    target: Target
    settings: Settings
    run: QueryRun


class Mode(ABC):
    """How records are handed to Kafka."""

    name: str

    @abstractmethod
    def options(self) -> Mapping[str, str]:
        """For the sink: its way of sending, and the producer's properties."""

    def session_options(self, settings: Settings) -> Mapping[str, str]:
        """For a Spark session that is started for it."""
        return {}

    def refuse_unsafe(self, spark: SparkSession, target: Target) -> None:
        """Refuse settings under which the mode could not keep its promise.

        Raises:
            UnsafeDeliveryError: names the setting and its value.
        """
        for kind in set(target.trigger) - _TRIGGERS:
            raise unsafe(
                self.name, "trigger", kind, "it has no micro-batches that could be finished"
            )

    def deliver(self, delivery: Delivery) -> None:
        """Run the query until it ends or is stopped.

        Raises:
            CheckpointError: the checkpoint is damaged.
            QueryFailedError: the query failed.
        """
        self._run_query(delivery, delivery.rows)

    def _run_query(
        self, delivery: Delivery, rows: DataFrame, trigger: Mapping[str, Any] | None = None
    ) -> None:
        run, settings = delivery.run, delivery.settings
        query = start(rows, delivery.target, run.id, self.options(), settings, trigger=trigger)
        try:
            run_until_stopped(query, run.stop, settings, run.on_batch)
        finally:
            close_producers(delivery.spark, query)


class Idempotent(Mode):
    """Several requests on their way; Kafka drops what a retry would double."""

    name = "idempotent"

    def options(self) -> Mapping[str, str]:
        return {
            "mode": "pipelined",
            **PRODUCER,
            "kafka.enable.idempotence": "true",
            "kafka.max.in.flight.requests.per.connection": "5",
        }


class Batched(Mode):
    """One request on its way, so that a retry overtakes nothing."""

    name = "batched"

    def options(self) -> Mapping[str, str]:
        return {
            "mode": "pipelined",
            **PRODUCER,
            "kafka.enable.idempotence": "false",
            "kafka.max.in.flight.requests.per.connection": "1",
        }


class Individual(Mode):
    """Each record waits for the acknowledgement of the one before it."""

    name = "individual"

    def __init__(self, pause_seconds: float = 0.0) -> None:
        if pause_seconds < 0:
            raise InputError(f"a pause can't be negative: {pause_seconds}")
        self._pause_seconds = pause_seconds

    def session_options(self, settings: Settings) -> Mapping[str, str]:
        own = settings.spark.master != "local[*]"
        return {} if own else {"spark.master": f"local[{_WAITING_TASKS}]"}

    def options(self) -> Mapping[str, str]:
        return {
            "mode": "individual",
            "pauseMillis": str(round(self._pause_seconds * 1000)),
            **PRODUCER,
            # Nothing comes that could share a request: any lingering is lost time.
            "kafka.linger.ms": "0",
            "kafka.batch.size": str(16 * 1024),
            "kafka.compression.type": "none",
            "kafka.enable.idempotence": "true",
            "kafka.max.in.flight.requests.per.connection": "1",
        }


class Strict(Mode):
    """Transactions: a task's records and the batch's number are committed as one."""

    name = "strict"

    def options(self) -> Mapping[str, str]:
        return {
            "mode": "transactional",
            **PRODUCER,
            **KNOWN_AFTER_A_KILL,
            # As long as a task may take. Kafka's own limit is 15 minutes.
            "kafka.transaction.timeout.ms": "600000",
        }

    def deliver(self, delivery: Delivery) -> None:
        """Runs a batch again whose transaction the broker aborted, a bounded number of times."""
        for tries_left in reversed(range(_TRANSACTION_TRIES)):
            try:
                super().deliver(delivery)
                return
            except QueryFailedError as failed:
                lost = next((name for name in _TRANSACTION_LOST if name in failed.message), None)
                if lost is None or not tries_left or delivery.run.stop.requested:
                    raise
                _LOG.warning("the broker aborted a transaction (%s); retrying its batch", lost)

    def refuse_unsafe(self, spark: SparkSession, target: Target) -> None:
        super().refuse_unsafe(spark, target)
        if target.failures_topic is not None:
            raise InputError(
                "strict delivery can't set records aside: one that Kafka refuses ends its "
                "transaction",
                hint="leave --on-failure at `stop`, or lower HEADWATER_JOBS__MAX_VALUE_BYTES, so "
                "that large values go to the dead letter before they are sent",
            )
        # A second run of a batch must be divided into the same tasks.
        spark.conf.set("spark.sql.adaptive.enabled", "false")


def unsafe(mode: str, setting: str, value: str, why: str) -> UnsafeDeliveryError:
    return UnsafeDeliveryError(
        f"{mode} delivery can't be promised with {setting}={value}: {why}",
        hint="use a local master without retries, such as spark.master=local[*], "
        "spark.speculation=false and a trigger of micro-batches; "
        "on a cluster use --delivery strict",
        setting=setting,
        value=value,
    )
