"""Running a join: its state store, its topics, and whoever watches it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headwater.enrichment.idle import Heartbeats, heartbeat_topic, heartbeats_exist
from headwater.enrichment.join import enrich
from headwater.enrichment.lateness import RULE_OF_LATENESS, register_functions
from headwater.enrichment.notes import keep_rule
from headwater.enrichment.rule import JoinRule
from headwater.enrichment.state import StateLimits, StateWatch
from headwater.kafka import describe_topic, ensure_topic
from headwater.metrics import JoinMetrics
from headwater.pipeline import LineageJob, OnFailure
from headwater.settings import Settings
from headwater.spark import OnBatch

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
    say: Callable[[str], None] = lambda line: None,
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
    if isinstance(join.checkpoint, Path):
        keep_rule(join.checkpoint, rule)
    beats = heartbeat_topic(join.output)
    if join.idle_timeout is not None:
        ensure_topic(beats, 1, settings)
    # Once read, always read: Spark takes a topic that is missing for lost data.
    beside = (beats,) if heartbeats_exist(beats, settings) else ()
    register_functions(job.spark, join.location)
    inputs = {
        topic: job.read(
            topic,
            starting_offsets=starting_offsets_of((topic, *beside), join.starting_offsets),
            beside=beside,
            max_records_per_batch=join.max_records_per_batch,
        )
        for topic in (rule.visits, rule.ads)
    }
    rows = enrich(inputs[rule.visits], inputs[rule.ads], rule, heartbeats=beats if beside else None)
    watch = StateWatch(join.limits, say, metrics)
    partitions = join.state_partitions or max(
        describe_topic(topic, settings).partitions for topic in inputs
    )
    configuration = {
        **STATE_STORES[join.state_store],
        **RULE_OF_LATENESS,
        PARTITIONS_SETTING: str(partitions),
    }
    with ExitStack() as stack:
        on_batch: OnBatch = watch.take
        if join.idle_timeout is not None:
            heartbeats = Heartbeats(rule, beats, join.idle_timeout, settings, say)
            stack.enter_context(heartbeats)
            on_batch = _both(heartbeats.take, watch.take)
        stack.enter_context(configured(job.spark, configuration))
        job.write(
            rows,
            join.output,
            trigger=join.trigger,
            on_failure=join.on_failure,
            late_output=True,
            one_per_first_parent=rule.matches == "first",
            on_batch=on_batch,
        )


def _both(first: OnBatch, second: OnBatch) -> OnBatch:
    def take(progress: Mapping[str, Any]) -> None:
        first(progress)
        second(progress)

    return take


def starting_offsets_of(topics: tuple[str, ...], text: str) -> str:
    """Spark wants the offsets of the topics of a source, of all and of no others."""
    if text in ("earliest", "latest"):
        return text
    given = json.loads(text)
    return json.dumps({topic: given.get(topic, {"0": -2}) for topic in topics})


@contextmanager
def configured(spark: SparkSession, configuration: Mapping[str, str]) -> Iterator[None]:
    """The session's settings, changed while the body runs; a query keeps those of its start."""
    before = {name: spark.conf.get(name, None) for name in configuration}
    for name, value in configuration.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, kept in before.items():
            if kept is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, kept)
