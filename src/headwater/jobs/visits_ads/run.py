"""Runs a join: its state store, topics and callbacks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from headwater.errors import InputError
from headwater.job import LineageJob, OnFailure, TopicOutput
from headwater.jobs.visits_ads.idle import Heartbeats
from headwater.jobs.visits_ads.join import LATENESS_CONFIGURATION, enrich, register_functions
from headwater.jobs.visits_ads.metrics import JoinMetrics
from headwater.jobs.visits_ads.rule import JoinRule, save_rule
from headwater.jobs.visits_ads.state import StateLimits, StateMonitor
from headwater.jobs.visits_ads.times import HeartbeatTopic, Times
from headwater.kafka import Topic, describe_topic, ensure_topic
from headwater.model.local_files import file_uri
from headwater.settings import Settings

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
_INPUT_PARTITIONS = 2
# As in Spark's offsets.
_NAMED_OFFSETS = {"earliest": -2, "latest": -1}
PARTITIONS_SETTING = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class Join:
    """A join and the options of its query."""

    rule: JoinRule
    output: str
    checkpoint: Path | str
    trigger: Mapping[str, Any]
    on_failure: OnFailure = "stop"
    starting_offsets: str = "earliest"
    max_records_per_batch: int | None = None
    idle_timeout: timedelta | None = None
    limits: StateLimits = field(default_factory=StateLimits)
    state_store: str = "rocksdb"
    # Fixed by the first start, with the checkpoint.
    state_partitions: int | None = None

    @property
    def location(self) -> str:
        if isinstance(self.checkpoint, Path):
            return file_uri(self.checkpoint)
        return self.checkpoint


def run_join(
    join: Join,
    job: LineageJob,
    settings: Settings,
    *,
    metrics: JoinMetrics | None = None,
) -> None:
    """Run the join until the query ends or is stopped.

    Raises:
        CheckpointError: the checkpoint belongs to another join.
        StateLimitError: the state has reached its limit; the batch is committed, and a start
            with a higher limit continues.
        QueryFailedError: the query failed.
    """
    rule = join.rule
    times = Times(rule, join.checkpoint)
    if isinstance(join.checkpoint, Path):
        save_rule(join.checkpoint, rule)
        times.restore(join.checkpoint, settings)
    heartbeat_topic = HeartbeatTopic.of(join.output, join.location)
    if settings.jobs.create_topics:
        ensure_topic(heartbeat_topic.name, 1, settings.kafka)
        for topic in (rule.visits, rule.ads):
            ensure_topic(topic, _INPUT_PARTITIONS, settings.kafka)
    register_functions(job.spark, join.location)
    additional = describe_topic(heartbeat_topic.name, settings.kafka)
    partitions = {t: describe_topic(t, settings.kafka).partitions for t in (rule.visits, rule.ads)}
    limit: dict[str, int] = (
        {"maxOffsetsPerTrigger": join.max_records_per_batch} if join.max_records_per_batch else {}
    )
    inputs = {
        topic: job.read(
            topic,
            heartbeat_topic.name,
            starting_offsets=starting_offsets_of(
                Topic(topic, partitions[topic]), additional, join.starting_offsets
            ),
            **limit,
        )
        for topic in partitions
    }
    rows = enrich(inputs[rule.visits], inputs[rule.ads], rule, heartbeats=heartbeat_topic)
    state_monitor = StateMonitor(join.limits, metrics)
    configuration = {
        **STATE_STORES[join.state_store],
        **LATENESS_CONFIGURATION,
        PARTITIONS_SETTING: str(join.state_partitions or max(partitions.values())),
    }
    heartbeats = Heartbeats(times, heartbeat_topic, join.idle_timeout, settings)

    def on_batch(progress: Mapping[str, Any]) -> None:
        heartbeats.take(progress)
        state_monitor.take(progress)

    output = TopicOutput(
        late=True,
        one_per_first_parent=rule.matches == "first",
        hidden_topics=frozenset({heartbeat_topic.name}),
        on_batch=on_batch,
        configuration=configuration,
        while_running=(heartbeats,),
    )
    job.start_topic(
        rows, join.output, output, trigger=join.trigger, on_failure=join.on_failure
    ).wait()


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
