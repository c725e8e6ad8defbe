"""Plain Spark jobs, run with row lineage switched on, and the parents that their records name.

Each record of the input has a number. A job writes the numbers that an output is made of into its
value, by its own means: that is the ledger to which the parents in the header are compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from headwater.kafka import RecordProducer, read_topic
from headwater.model import Record
from headwater.settings import Settings
from headwater.spark.configuration import configured
from headwater.spark.session import own_class

ENABLED = {"spark.headwater.lineage.enabled": "true"}
_RANGE = re.compile(r"~(.+)@(\d+)\.\.(\d+)")
SCHEMA = "n int, k int, t timestamp"
START = 1_700_000_000


@dataclass(frozen=True)
class Parents:
    """The parents that a header names."""

    numbers: frozenset[int]
    ranges: tuple[tuple[str, int, int], ...] = ()
    unknown: bool = False

    @property
    def exact(self) -> bool:
        return not self.ranges and not self.unknown


class NumberedRecords:
    """Numbered records in topics."""

    settings: Settings
    numbers: dict[str, int]

    def fill(self, topic: str, count: int, *, first: int = 0, partitions: int = 2) -> None:
        """Write numbered records: number, a key of ten, and a time that grows by a second."""
        with RecordProducer(self.settings.kafka) as producer:
            for place in range(count):
                number = first + place
                value = {"n": number, "k": number % 10, "t": START + place}
                partition = place % partitions
                producer.send(topic, json.dumps(value).encode(), b"key", partition=partition)
                self.numbers[f"{topic}/{partition}@{place // partitions}"] = number

    def parents(self, record: Record) -> Parents | None:
        """What the header names; None without a header."""
        header = record.header("lineage")
        if header is None:
            return None
        items = header.decode().split()[2].split(",")
        numbers, ranges, unknown = set(), [], False
        for item in items:
            if found := _RANGE.fullmatch(item):
                ranges.append((found[1], int(found[2]), int(found[3])))
            elif item == "?":
                unknown = True
            elif item in self.numbers:
                numbers.add(self.numbers[item])
            else:
                assert item == "-" or item.startswith("+"), item
        return Parents(frozenset(numbers), tuple(ranges), unknown)

    def is_within(self, number: int, parents: Parents) -> bool:
        """Whether the record of this number is a parent, or within a range."""
        (address,) = [each for each, value in self.numbers.items() if value == number]
        place, _, offset = address.rpartition("@")
        return number in parents.numbers or any(
            place == other and first <= int(offset) <= last for other, first, last in parents.ranges
        )


@dataclass
class Records(NumberedRecords):
    """Numbered records for a job in another process."""

    settings: Settings
    numbers: dict[str, int] = field(default_factory=dict)


@dataclass
class Ledger(NumberedRecords):
    """Numbered records in topics, and a Spark session for jobs that read them."""

    spark: SparkSession
    settings: Settings
    folder: Path
    numbers: dict[str, int] = field(default_factory=dict)
    _queries: int = 0

    def read(self, topic: str, **options: Any) -> DataFrame:
        """The records, with columns of Kafka and `n, k, t`, in batches of 100."""
        source = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.settings.bootstrap_servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 100)
            .options(**options)
            .load()
        )
        schema = "struct<n:int,k:int,t:bigint>"
        fields = F.from_json(F.col("value").cast("string"), schema)
        parsed = source.withColumn("_r", fields)
        return parsed.select(
            *source.columns, "_r.n", "_r.k", F.timestamp_seconds("_r.t").alias("t")
        )

    def run(
        self,
        rows: DataFrame,
        output: str,
        *,
        mode: str = "append",
        lineage: bool = True,
        checkpoint: Path | None = None,
        options: Mapping[str, str] | None = None,
        **conf: str,
    ) -> list[Record]:
        """Write the rows as a plain job does, and read what the topic has then."""
        query = self.start(
            rows,
            output,
            mode=mode,
            lineage=lineage,
            checkpoint=checkpoint,
            options=options,
            **conf,
        )
        return self.finish(query, output)

    def start(
        self,
        rows: DataFrame,
        output: str,
        *,
        mode: str = "append",
        lineage: bool = True,
        checkpoint: Path | None = None,
        options: Mapping[str, str] | None = None,
        **conf: str,
    ) -> StreamingQuery:
        self._queries += 1
        settings = {f"spark.headwater.lineage.{name}": value for name, value in conf.items()}
        enabled = ENABLED if lineage else {}
        with configured(self.spark, {**enabled, **settings}):
            return (
                rows.writeStream.format("kafka")
                .option("kafka.bootstrap.servers", self.settings.bootstrap_servers)
                .option("topic", output)
                .options(**(options or {}))
                .option("checkpointLocation", str(checkpoint or self.checkpoint()))
                .outputMode(mode)
                .queryName(f"unchanged_{self._queries}")
                .trigger(availableNow=True)
                .start()
            )

    def finish(self, query: StreamingQuery, output: str) -> list[Record]:
        """Wait for the end of the query, and read what the topic has then."""
        query.awaitTermination(120)
        assert not query.isActive
        return list(read_topic(output, self.settings.kafka))

    def in_batches(
        self, topic: str, write: Callable[[DataFrame], None], *, name: str = "", **options: Any
    ) -> None:
        """Pass the columns `n, k` to foreachBatch, with row lineage switched on."""
        self.each_batch(self.read(topic, **options).select("n", "k"), write, name=name)

    def each_batch(
        self, rows: DataFrame, write: Callable[[DataFrame], None], *, name: str = "", **conf: str
    ) -> None:
        """Pass the rows to foreachBatch, with row lineage switched on."""
        self._queries += 1
        settings = {f"spark.headwater.lineage.{name}": value for name, value in conf.items()}
        with configured(self.spark, {**ENABLED, **settings}):
            query = (
                rows.writeStream.foreachBatch(lambda batch, _: write(batch))
                .option("checkpointLocation", str(self.checkpoint()))
                .queryName(name or f"unchanged_{self._queries}")
                .trigger(availableNow=True)
                .start()
            )
        query.awaitTermination(120)
        assert not query.isActive

    def status(self) -> dict[str, Any]:
        """What was reported for the last query."""
        name = f"unchanged_{self._queries}"
        found = json.loads(own_class("rowlineage.RowLineageStatus").json(name))
        return {key: found[key] for key in ("kind", "steps", "reason")}

    def checkpoint(self) -> Path:
        return self.folder / f"checkpoint-{self._queries}"


def true_parents(record: Record) -> frozenset[int]:
    """The numbers in the value of an output record."""
    assert record.value is not None
    return frozenset(int(each) for each in re.findall(r"\d+", record.value.decode()))


def values(records: list[Record]) -> list[bytes | None]:
    return sorted((record.value for record in records), key=lambda value: value or b"")


def numbers(*columns: str) -> Any:
    """The value of an output: the numbers that it is made of."""
    return F.concat_ws(",", *(F.col(each).cast("string") for each in columns)).alias("value")
