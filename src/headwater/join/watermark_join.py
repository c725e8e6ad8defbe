"""`WatermarkJoin`: the join of two topics, with late output, idle timeout and state limits.

from headwater import JoinSide, LineageJob, WatermarkJoin

with LineageJob("paid_orders") as job:
    orders = JoinSide(
        "orders",
        fields={"order_id": "string", "ordered_at": "timestamp", "amount": "double"},
        key="order_id",
        time="ordered_at",
    )
    payments = JoinSide(
        "payments",
        fields={"order_id": "string", "paid_at": "timestamp"},
        key="order_id",
        time="paid_at",
    )
    join = WatermarkJoin(
        job, orders, payments, "paid-orders", within=("0 seconds", "1 hour"), how="left_outer"
    )
    join.write()
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from headwater.collector.streaming import QueryHandle
from headwater.errors import InputError
from headwater.job import LineageJob, OnFailure, TopicOutput
from headwater.join.explain import explain
from headwater.join.heartbeats import Heartbeats
from headwater.join.metrics import JoinMetrics
from headwater.join.output import ColumnOf
from headwater.join.plan import join_rows
from headwater.join.rule import How, JoinRule, JoinSide, Matches
from headwater.join.rule_file import save_rule
from headwater.join.side_rows import LATENESS_CONFIGURATION, register_functions
from headwater.join.spans import parse_span
from headwater.join.state import StateLimits, StateMonitor
from headwater.join.times import HeartbeatTopic, Times
from headwater.kafka import Topic, describe_topic, ensure_topic, input_topic
from headwater.spark.query_runner import checkpoint_uri

_STORES = "org.apache.spark.sql.execution.streaming.state"
# RocksDB keeps the state on disk and off the heap, without garbage collection; with a changelog a
# batch uploads its changes instead of complete files.
STATE_STORES: Mapping[str, Mapping[str, str]] = {
    "rocksdb": {
        "spark.sql.streaming.stateStore.providerClass": f"{_STORES}.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    },
    "memory": {
        "spark.sql.streaming.stateStore.providerClass": f"{_STORES}.HDFSBackedStateStoreProvider",
    },
}
_SHORTEST_TIMEOUT = timedelta(milliseconds=1)
# As in Spark's offsets.
_NAMED_OFFSETS = {"earliest": -2, "latest": -1}
PARTITIONS_SETTING = "spark.sql.shuffle.partitions"


class WatermarkJoin:
    """A join of two topics while they grow, in which every record is accounted for.

    A record of the right topic matches a record of the left one with the same key if its time is
    within bounds. Late records go to `<output>-late`, malformed ones and those far in the future
    (`jobs.max_ahead_seconds`) to `<output>-dead-letter`;
    `headwater why-missing` shows until when a record waits for its match.

    Args:
        job: reads and writes; one join per query.
        left: the left input.
        right: the right input.
        output: the output topic.
        within: the bounds of the right record's time relative to that of the left record, both
            included, such as `("-10 minutes", "1 hour")`.
        how: `inner`, `left_outer`, `right_outer` or `full_outer`.
        matches: for several matches of a record of the left side (with `right_outer`: of the right
            side): `all` writes a row for each; `first` for the first one found; `nearest` for the
            nearest in time, when no more can come.
        key: makes the key of a joined row, from the fields of the left and of the right record.
            Default: the key of the join.
        value: makes its value. Default: a JSON object with all fields.
        starting_offsets: where to start without a checkpoint: `earliest`, `latest` or JSON with the
            offsets of both topics.
        max_records_per_batch: at most this many records of each topic in a micro-batch.
        idle_timeout: a topic without records for this long no longer holds back the watermark.
        max_state_rows: stop with StateLimitError when the state has this many rows.
        max_state_bytes: stop with StateLimitError when the state has this size.
        state_store: `rocksdb`, on disk, or `memory`.
        state_partitions: number of state partitions; fixed by the first start. Default: the number
            of partitions of the inputs.
        name: name of the query, if the job has several. Default: the job's name.
        checkpoint: of the query, if the job has several. Default: the job's.

    Attributes:
        metrics: Prometheus metrics of the join, in `metrics.registry`.

    Raises:
        InputError: the arguments contradict each other.
    """

    def __init__(
        self,
        job: LineageJob,
        left: JoinSide,
        right: JoinSide,
        output: str,
        *,
        within: tuple[str | timedelta, str | timedelta],
        how: How = "inner",
        matches: Matches = "all",
        key: ColumnOf | None = None,
        value: ColumnOf | None = None,
        starting_offsets: str = "earliest",
        max_records_per_batch: int | None = None,
        idle_timeout: str | timedelta | None = None,
        max_state_rows: int | None = None,
        max_state_bytes: int | None = None,
        state_store: str = "rocksdb",
        state_partitions: int | None = None,
        name: str | None = None,
        checkpoint: Path | str | None = None,
    ) -> None:
        lower, upper = (parse_span(bound, "within") for bound in within)
        self.rule = JoinRule(left, right, lower, upper, how, matches)
        self.output = output
        self.metrics = JoinMetrics(output, (left.label, right.label))
        self._job = job
        self._columns = {"key": key, "value": value}
        self._starting_offsets = starting_offsets
        self._max_records = max_records_per_batch
        self._idle_timeout = parse_idle_timeout(idle_timeout, "idle_timeout")
        self._limits = StateLimits(max_state_rows, max_state_bytes)
        if state_store not in STATE_STORES:
            raise InputError(
                f"state_store: {state_store!r} is not one of {', '.join(STATE_STORES)}"
            )
        self._store = state_store
        self._state_partitions = state_partitions
        self._name = name
        self._given_checkpoint = checkpoint
        self._checkpoint = job.checkpoint_of(name, checkpoint)
        location = checkpoint_uri(self._checkpoint)
        self._heartbeat_topic = HeartbeatTopic.of(output, location)
        self._rows: DataFrame | None = None

    @property
    def rows(self) -> DataFrame:
        """The rows to write: joined ones, and records that could not be joined.

        Columns: `key` and `value` of the output; `left` and `right`, structs with the fields of the
        joined records, null without one; `lineage`, `error` and `raw_value`, which have to be kept.
        In late, malformed and deleted (null) records both `left` and `right` are null.
        """
        if self._rows is None:
            self._rows = self._joined()
        return self._rows

    def _joined(self) -> DataFrame:
        self._ensure_topics()
        register_functions(self._job.spark, checkpoint_uri(self._checkpoint))
        beats = describe_topic(self._heartbeat_topic.name, self._job.settings.kafka)
        limit = {"maxOffsetsPerTrigger": self._max_records} if self._max_records else {}
        inputs = {
            topic.name: self._job.read(
                topic.name,
                beats.name,
                starting_offsets=starting_offsets_of(topic, beats, self._starting_offsets),
                **limit,
            )
            for topic in self._topics()
        }
        return join_rows(
            inputs,
            self.rule,
            heartbeats=self._heartbeat_topic,
            max_ahead=timedelta(seconds=self._job.settings.jobs.max_ahead_seconds),
            **self._columns,
        )

    def explain(self) -> str:
        """Describe which records match, until when they wait, and what is late."""
        return explain(self.rule, self.output, idle_timeout=self._idle_timeout)

    def write(
        self,
        rows: DataFrame | None = None,
        *,
        trigger: Mapping[str, Any] | None = None,
        on_failure: OnFailure = "stop",
    ) -> None:
        """Run the join; returns when the query ends or is stopped.

        The arguments are those of `start`.

        Raises:
            StateLimitError: the state has reached its limit; the batch is committed, and a start
                with a higher limit continues.
            QueryFailedError: the query failed; the next start continues where it stopped.
        """
        self.start(rows, trigger=trigger, on_failure=on_failure).wait()

    def start(
        self,
        rows: DataFrame | None = None,
        *,
        trigger: Mapping[str, Any] | None = None,
        on_failure: OnFailure = "stop",
    ) -> QueryHandle:
        """Start the join and return its handle, as `LineageJob.start`.

        Args:
            rows: rows made from `rows` of this join. Default: those.
            trigger: arguments of Spark's `DataStreamWriter.trigger`.
            on_failure: for a record that Kafka rejects: `stop`, or send it to the `dead-letter`
                topic.

        Raises:
            CheckpointError: the checkpoint belongs to another join.
            InputError: `idle_timeout` with a trigger that ends by itself.
        """
        if self._idle_timeout is not None and {"availableNow", "once"} & set(trigger or ()):
            raise InputError(
                f"idle_timeout can't be used with the trigger {dict(trigger or {})}",
                hint="the query ends before a topic can be idle: remove one of them",
            )
        settings = self._job.settings
        times = Times(self.rule, self._checkpoint)
        if isinstance(self._checkpoint, Path):
            save_rule(self._checkpoint, self.rule)
            times.restore(self._checkpoint, settings)
        heartbeats = Heartbeats(times, self._heartbeat_topic, self._idle_timeout, settings)
        labels = tuple(side.label for side in self.rule.sides)
        monitor = StateMonitor(self._limits, self.metrics, labels)

        def on_batch(progress: Mapping[str, Any]) -> None:
            heartbeats.take(progress)
            monitor.take(progress)

        rows = self.rows if rows is None else rows
        partitions = self._state_partitions or max(topic.partitions for topic in self._topics())
        output = TopicOutput(
            late=True,
            one_per_first_parent=self.rule.matches == "first",
            hidden_topics=frozenset({self._heartbeat_topic.name}),
            on_batch=on_batch,
            configuration={
                **STATE_STORES[self._store],
                **LATENESS_CONFIGURATION,
                PARTITIONS_SETTING: str(partitions),
            },
            while_running=(heartbeats,),
        )
        return self._job.start_topic(
            rows,
            self.output,
            output,
            name=self._name,
            checkpoint=self._given_checkpoint,
            trigger=trigger,
            on_failure=on_failure,
        )

    def _topics(self) -> list[Topic]:
        return [input_topic(side.topic, self._job.settings.kafka) for side in self.rule.sides]

    def _ensure_topics(self) -> None:
        settings = self._job.settings
        if settings.jobs.create_topics:
            ensure_topic(self._heartbeat_topic.name, 1, settings.kafka)


def parse_idle_timeout(given: str | timedelta | None, option: str) -> timedelta | None:
    """The idle timeout, which must be greater than zero."""
    return None if given is None else parse_span(given, option, minimum=_SHORTEST_TIMEOUT)


def starting_offsets_of(topic: Topic, heartbeats: Topic, text: str) -> str:
    """Starting offsets of a source with these two topics, for every partition as Spark requires.

    A new join ignores existing heartbeats.
    """
    if text in _NAMED_OFFSETS:
        offsets = _all_partitions(topic, text)
    else:
        parsed = json.loads(text)
        if topic.name not in parsed:
            raise InputError(f"--starting-offsets has no offsets of topic {topic.name!r}: {text}")
        offsets = parsed[topic.name]
    return json.dumps({topic.name: offsets, heartbeats.name: _all_partitions(heartbeats, "latest")})


def _all_partitions(topic: Topic, named: str) -> dict[str, int]:
    return dict.fromkeys(map(str, range(topic.partitions)), _NAMED_OFFSETS[named])
