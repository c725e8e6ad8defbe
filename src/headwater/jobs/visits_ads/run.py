"""Running a join: its state store, its topics, and whoever watches it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from headwater.errors import InputError
from headwater.job import LineageJob, OnFailure
from headwater.jobs.visits_ads.idle import Heartbeats
from headwater.jobs.visits_ads.join import enrich
from headwater.jobs.visits_ads.lateness import RULE_OF_LATENESS, register_functions
from headwater.jobs.visits_ads.metrics import JoinMetrics
from headwater.jobs.visits_ads.notes import keep_rule
from headwater.jobs.visits_ads.rule import JoinRule
from headwater.jobs.visits_ads.state import StateLimits, StateWatch
from headwater.jobs.visits_ads.times import HeartbeatTopic, Times
from headwater.kafka import Topic, describe_topic, ensure_topic
from headwater.settings import Settings
from headwater.spark.conf import configured

_STORES = "org.apache.spark.sql.execution.streaming.state"
# On disk and off the heap, so that a long wait costs no garbage collection; with a log of changes,
# a batch uploads what it changed and not whole files.
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
# As Spark writes them.
_NAMED_OFFSETS = {"earliest": -2, "latest": -1}
PARTITIONS_SETTING = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class Join:
    """All that a join is run with besides its rule."""

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
            return f"file://{self.checkpoint.absolute()}"
        return self.checkpoint


def run_join(
    join: Join,
    job: LineageJob,
    settings: Settings,
    *,
    metrics: JoinMetrics | None = None,
) -> None:
    """Run until the query ends or is stopped.

    Raises:
        CheckpointError: the checkpoint belongs to another join.
        StateLimitError: the state has reached its limit; the batch is done, and a start with
            a higher one goes on.
        QueryFailedError: the query failed.
    """
    rule = join.rule
    times = Times(rule, join.checkpoint)
    if isinstance(join.checkpoint, Path):
        keep_rule(join.checkpoint, rule)
        times.restore(join.checkpoint, settings)
    beats = HeartbeatTopic.of(join.output, join.location)
    if settings.jobs.create_topics:
        ensure_topic(beats.name, 1, settings.kafka)
        for topic in (rule.visits, rule.ads):
            ensure_topic(topic, _INPUT_PARTITIONS, settings.kafka)
    register_functions(job.spark, join.location)
    beside = describe_topic(beats.name, settings.kafka)
    partitions = {t: describe_topic(t, settings.kafka).partitions for t in (rule.visits, rule.ads)}
    inputs = {
        topic: job.read(
            topic,
            starting_offsets=starting_offsets_of(
                Topic(topic, partitions[topic]), beside, join.starting_offsets
            ),
            beside=(beats.name,),
            max_records_per_batch=join.max_records_per_batch,
        )
        for topic in partitions
    }
    rows = enrich(inputs[rule.visits], inputs[rule.ads], rule, heartbeats=beats)
    watch = StateWatch(join.limits, metrics)
    configuration = {
        **STATE_STORES[join.state_store],
        **RULE_OF_LATENESS,
        PARTITIONS_SETTING: str(join.state_partitions or max(partitions.values())),
    }
    heartbeats = Heartbeats(times, beats, join.idle_timeout, settings)

    def on_batch(progress: Mapping[str, Any]) -> None:
        heartbeats.take(progress)
        watch.take(progress)

    with configured(job.spark, configuration), heartbeats:
        job.write(
            rows,
            join.output,
            trigger=join.trigger,
            on_failure=join.on_failure,
            late_output=True,
            one_per_first_parent=rule.matches == "first",
            on_batch=on_batch,
        )


def starting_offsets_of(topic: Topic, heartbeats: Topic, text: str) -> str:
    """Where a source with these two topics begins, which Spark wants to know of every partition.

    A new join has nothing to do with the heartbeats of one before it.
    """
    if text in _NAMED_OFFSETS:
        offsets = _everywhere(topic, text)
    else:
        given = json.loads(text)
        if topic.name not in given:
            raise InputError(f"--starting-offsets does not name the topic {topic.name!r}: {text}")
        offsets = given[topic.name]
    return json.dumps({topic.name: offsets, heartbeats.name: _everywhere(heartbeats, "latest")})


def _everywhere(topic: Topic, named: str) -> dict[str, int]:
    return dict.fromkeys(map(str, range(topic.partitions)), _NAMED_OFFSETS[named])
