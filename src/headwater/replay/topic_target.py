"""A topic as the target of a replay, with the delivery modes of a job."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.delivery.modes import (
    FORMER_MODE_NAMES,
    ExactlyOnce,
    Mode,
    Transactional,
)
from headwater.delivery.output_offsets import OutputOffsets
from headwater.delivery.sink import (
    ORDINAL_COLUMN,
    OutputTopics,
    SinkTarget,
    check_topic_columns,
    close_producers_of,
    rows_to_send,
    send_batch,
    shuffles_of,
    topics_for_parents,
)
from headwater.delivery.written import shared_identity, without_written
from headwater.errors import CheckpointError, ReplayRefusedError, TopicNotFoundError
from headwater.kafka import KafkaRuns, describe_topic, end_offsets, ensure_topic
from headwater.model.foreign_headers import REPLAY_COUNT, REPLAY_ID
from headwater.replay.identities import CONTENT, IDENTITY, from_inputs, in_topic, record_hash
from headwater.replay.target import Ends, ReplayContext, ReplayTarget
from headwater.spark.configuration import configured
from headwater.spark.source import (
    FETCH,
    LINEAGE_COLUMN,
    client_options,
    connect_once,
    lineage_identity,
)
from headwater.storage.offset_ranges import OffsetRanges

_MODES: Mapping[str, type[Mode]] = {mode.name: mode for mode in (ExactlyOnce, Transactional)}
DELIVERIES = tuple(_MODES)


class TopicTarget(ReplayTarget):
    """The topic, and its dead letter topic."""

    def __init__(self, context: ReplayContext) -> None:
        super().__init__(context)
        plan, transform = context.plan, context.transform
        self._topics = OutputTopics((plan.target,))
        # Plans on disk may have the former name of a mode.
        self._mode: Mode = _MODES[FORMER_MODE_NAMES.get(plan.delivery, plan.delivery)]()
        self._output = OutputOffsets(context.folder.path, self._topics, context.settings)
        self._target = SinkTarget(
            transform.job_name,
            plan.job_version,
            context.folder.path,
            self._topics,
            {"once": True},
            transform.header_order,
        )

    def prepare(self, inputs: DataFrame, outputs: DataFrame) -> None:
        context = self.context
        check_topic_columns(outputs, context.plan.target)
        # Reading in order adds exchanges to the plan of the inputs, too: only the transform counts.
        no_shuffle = shuffles_of(outputs) == shuffles_of(inputs)
        self._target = replace(self._target, one_input_per_task=no_shuffle)
        self._mode.refuse_unsafe(context.spark, self._target, context.settings)
        if context.settings.jobs.create_topics:
            partitions = _partitions(context)
            for name in (*self._topics, *topics_for_parents(outputs, self._topics)):
                ensure_topic(name, partitions, context.settings.kafka)

    def ends(self) -> Ends:
        settings = self.context.settings
        return {
            topic: {str(p): end for p, end in end_offsets(topic, settings.kafka).items()}
            for topic in self._topics
        }

    def before_step(self) -> None:
        with self._refusals():
            self._output.begin_run(self.context.run_id)

    def rows(self, outputs: DataFrame, step: int) -> DataFrame:
        rows = rows_to_send(outputs, self._topics, self.context.settings.jobs.max_value_bytes)
        identity = lineage_identity(
            F.col(LINEAGE_COLUMN), self._target.job_name, F.col(ORDINAL_COLUMN)
        )
        return rows.withColumn(IDENTITY, identity).withColumn(
            CONTENT, record_hash(F.col(IDENTITY), F.col("key"), F.col("value"))
        )

    def existing(self) -> DataFrame:
        settings = self.context.settings
        options = {
            "kafka.bootstrap.servers": settings.bootstrap_servers,
            "subscribe": ",".join(self._topics),
            "includeHeaders": "true",
            "kafka.isolation.level": "read_committed",
            **FETCH,
            **client_options(settings),
        }
        connect_once(options, settings)
        records = self.context.spark.read.format("kafka").options(**options).load()
        runs = KafkaRuns(settings.kafka).of_job(self._target.job_name)
        return in_topic(records, self._target.job_name, self.context.run_id, runs)

    def near(self, existing: DataFrame, offsets: Mapping[int, OffsetRanges]) -> DataFrame:
        return from_inputs(existing, self.context.plan.topic, offsets)

    def write(self, rows: DataFrame, step: int, *, again: bool) -> int:
        context = self.context
        # A transaction is committed or aborted as a unit: there is nothing to look for.
        look_back = again and isinstance(self._mode, ExactlyOnce)
        with self._refusals():
            written = self._output.written_by(step) if look_back else set()
        self._refuse_shared(rows, written, step)
        rows = without_written(rows, written, self._target.job_name)
        headers = {
            REPLAY_ID: context.plan.replay_id,
            REPLAY_COUNT: str(context.plan.replay_count),
        }
        try:
            with configured(context.spark, self._mode.query_configuration()):
                send_batch(
                    rows,
                    self._target,
                    context.run_id,
                    step,
                    self._mode.options(),
                    context.settings,
                    own_headers=headers,
                )
        finally:
            close_producers_of(context.spark, context.run_id)
        return len(written)

    def _refuse_shared(self, rows: DataFrame, written: Collection[str], step: int) -> None:
        """Refuse to complete a step whose missing rows can't be found by their parents."""
        shared = shared_identity(rows, written, self._target.job_name)
        if shared is not None:
            raise ReplayRefusedError(
                f"step {step + 1} was interrupted, and several of its rows have the same parents "
                f"({shared}): which of them are written is not known",
                hint=f"remove {self.context.folder.path} and start the replay again with "
                "--skip-existing, which compares keys and values, too. To prevent it, add a column "
                "`ordinal` to the rows of the transform, or use --delivery transactional",
                replay_id=self.context.plan.replay_id,
            )

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """A target that was recreated, or lost records of an interrupted step, is refused."""
        try:
            yield
        except CheckpointError as error:
            raise ReplayRefusedError(
                error.message,
                hint=f"remove {self.context.folder.path} and start the replay again, with "
                "--skip-existing if the target has records of it",
                **error.attributes,
            ) from error


def _partitions(context: ReplayContext) -> int:
    """The partitions of a new target: as many as the source has or had."""
    try:
        return describe_topic(context.plan.topic, context.settings.kafka).partitions
    except TopicNotFoundError:
        return max(context.plan.offsets) + 1
