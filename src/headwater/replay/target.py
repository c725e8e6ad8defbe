"""The interface of a replay's target, and the writing of a step."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from headwater.model.local_files import file_uri
from headwater.replay.folder import ReplayFolder
from headwater.replay.identities import (
    CONTENT,
    IDENTITY,
    checksum_metrics,
    checksum_of,
    record_hash,
    without,
)
from headwater.replay.manifest import StepResult
from headwater.replay.plan import Plan
from headwater.replay.rows import archived_address
from headwater.replay.transform import Transform
from headwater.settings import Settings
from headwater.storage.offset_ranges import OffsetRanges

# End offsets by topic and partition.
Ends = Mapping[str, Mapping[str, int]]

_RUNS = uuid.UUID("5d1d1f0e-6c56-4f0b-9f0a-3f1f5f3a7c11")


def run_id_of(replay_id: str) -> str:
    """The run id of a replay, the same each time it is resumed. It identifies the rows."""
    return str(uuid.uuid5(_RUNS, replay_id))


@dataclass(frozen=True)
class ReplayContext:
    """The replay that a target writes for."""

    spark: SparkSession
    plan: Plan
    transform: Transform
    folder: ReplayFolder
    settings: Settings

    @property
    def run_id(self) -> str:
        return run_id_of(self.plan.replay_id)


class ReplayTarget(ABC):
    """A topic or a table that a replay writes to, step by step, each row once."""

    def __init__(self, context: ReplayContext) -> None:
        self.context = context

    @abstractmethod
    def prepare(self, inputs: DataFrame, outputs: DataFrame) -> None:
        """Check that the outputs can be written; nothing is written yet."""

    @abstractmethod
    def ends(self) -> Ends:
        """The target's current end offsets; empty for a table."""

    @abstractmethod
    def before_step(self) -> None:
        """Record what is needed if the next step is interrupted; it has not started yet."""

    @abstractmethod
    def rows(self, outputs: DataFrame, step: int) -> DataFrame:
        """The outputs of a step, with the columns `_identity`, `_content` and `error`; a row
        without content is counted and not written."""

    @abstractmethod
    def existing(self) -> DataFrame:
        """`_identity` and `_content` of the target's rows, except those of this replay."""

    @abstractmethod
    def near(self, existing: DataFrame, offsets: Mapping[int, OffsetRanges]) -> DataFrame:
        """The existing rows that these inputs may produce again."""

    @abstractmethod
    def write(self, rows: DataFrame, step: int, *, again: bool) -> int:
        """Write a step; `again` if it was started before. Returns how many of its rows were
        already written."""

    def write_step(
        self, outputs: DataFrame, step: int, offsets: Mapping[int, OffsetRanges], *, again: bool
    ) -> StepResult:
        """Write the outputs of a step; returns what was written."""
        rows = self.rows(outputs, step)
        all_rows = Observation()
        if self.context.plan.skip_existing:
            rows = rows.observe(all_rows, F.count("*").alias("records"))
            rows = without(rows, self.near(self._stored_existing(), offsets))
        written = Observation()
        failed = F.count_if(F.col("error").isNotNull()).alias("failed")
        rest = F.count("*").alias("rest")
        rows = rows.observe(written, *checksum_metrics(F.col(CONTENT)), failed, rest)
        already_written = self.write(rows.drop(IDENTITY, CONTENT), step, again=again)
        metrics = written.get
        result = StepResult(
            outputs=checksum_of(metrics),
            dead_letters=metrics["failed"],
            already_written=already_written,
        )
        if self.context.plan.skip_existing:
            result.skipped = all_rows.get["records"] - metrics["rest"]
        return result

    def _stored_existing(self) -> DataFrame:
        """The existing rows, read once before the first step and stored: a resumed replay must
        skip the same rows."""
        spark, folder = self.context.spark, self.context.folder.path / "existing"
        if not _is_complete(folder):
            self.existing().write.mode("overwrite").parquet(file_uri(folder))
        return spark.read.parquet(file_uri(folder))


def _is_complete(folder: Path) -> bool:
    # Spark writes this file last.
    return (folder / "_SUCCESS").is_file()


def observe_read(rows: DataFrame) -> tuple[DataFrame, Observation]:
    """Observe the number and the checksum of the rows that are read.

    Spark does not move or remove a sort below an observation.
    """
    observation = Observation()
    hashes = record_hash(archived_address(), F.col("key"), F.col("value"))
    return rows.observe(observation, *checksum_metrics(hashes)), observation
