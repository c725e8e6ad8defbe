"""Where a replay writes: what every target can do, and the name by which it is found."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from headwater.replay.digest_columns import checksum_metrics, checksum_of, record_hash
from headwater.replay.folder import ReplayFolder
from headwater.replay.identities import CONTENT, IDENTITY, without
from headwater.replay.manifest import StepResult
from headwater.replay.plan import Plan
from headwater.replay.rows import address_text
from headwater.replay.transform import Transform
from headwater.settings import Settings
from headwater.storage.offset_ranges import OffsetRanges

# The ends of a topic's partitions, by topic and partition.
Ends = Mapping[str, Mapping[str, int]]

_RUNS = uuid.UUID("5d1d1f0e-6c56-4f0b-9f0a-3f1f5f3a7c11")


def run_id_of(replay_id: str) -> str:
    """The run of a replay: one, however often it had to be started. Its rows are found by it."""
    return str(uuid.uuid5(_RUNS, replay_id))


@dataclass(frozen=True)
class Context:
    """What a target needs to know of the replay."""

    spark: SparkSession
    plan: Plan
    logic: Transform
    folder: ReplayFolder
    settings: Settings

    @property
    def run_id(self) -> str:
        return run_id_of(self.plan.replay_id)


class ReplayTarget(ABC):
    """A topic or a table that a replay writes to, step by step, each row once."""

    def __init__(self, context: Context) -> None:
        self.context = context

    @abstractmethod
    def prepare(self, inputs: DataFrame, outputs: DataFrame) -> None:
        """Make sure that what came of the inputs can be written; nothing is written yet."""

    @abstractmethod
    def ends(self) -> Ends:
        """Where the target ends now, as far as it has ends."""

    @abstractmethod
    def before_step(self) -> None:
        """Note what has to be known if the step that comes is cut off; it is not begun yet."""

    @abstractmethod
    def rows(self, outputs: DataFrame, step: int) -> DataFrame:
        """What came of a step, with the columns `_identity`, `_content` and `error`; a row without
        content is counted and not written."""

    @abstractmethod
    def existing(self) -> DataFrame:
        """`_identity` and `_content` of what is there, but for what this replay wrote."""

    @abstractmethod
    def near(self, existing: DataFrame, offsets: Mapping[int, OffsetRanges]) -> DataFrame:
        """Of those, the ones that may be made again from these inputs."""

    @abstractmethod
    def write(self, rows: DataFrame, step: int, *, again: bool) -> int:
        """Write a step; `again` if it was begun before. Returns how much of it was there."""

    def write_step(
        self, outputs: DataFrame, step: int, offsets: Mapping[int, OffsetRanges], *, again: bool
    ) -> StepResult:
        """Write what came of a step's inputs, and tell what it was."""
        rows = self.rows(outputs, step)
        every = Observation()
        if self.context.plan.skip_existing:
            rows = rows.observe(every, F.count("*").alias("records"))
            rows = without(rows, self.near(self._kept_existing(), offsets))
        written = Observation()
        failed = F.count_if(F.col("error").isNotNull()).alias("failed")
        rest = F.count("*").alias("rest")
        rows = rows.observe(written, *checksum_metrics(F.col(CONTENT)), failed, rest)
        found = self.write(rows.drop(IDENTITY, CONTENT), step, again=again)
        seen = written.get
        result = StepResult(outputs=checksum_of(seen), dead_letters=seen["failed"], found=found)
        if self.context.plan.skip_existing:
            result.skipped = every.get["records"] - seen["rest"]
        return result

    def _kept_existing(self) -> DataFrame:
        """Looked at once, before the first step, and kept: a replay that is resumed leaves out
        the same as it would have without."""
        spark, kept = self.context.spark, self.context.folder.path / "existing"
        if not _is_complete(kept):
            self.existing().write.mode("overwrite").parquet(f"file://{kept}")
        return spark.read.parquet(f"file://{kept}")


def _is_complete(folder: Path) -> bool:
    # Spark's mark that a folder was written to its end.
    return (folder / "_SUCCESS").is_file()


def observe_read(rows: DataFrame) -> tuple[DataFrame, Observation]:
    """Rows of the archive, whose number and checksum are told when they have gone by.

    What is observed stays where it is: Spark moves no sort over it, or away.
    """
    seen = Observation()
    hashed = record_hash(address_text(), F.col("key"), F.col("value"))
    return rows.observe(seen, *checksum_metrics(hashed)), seen
