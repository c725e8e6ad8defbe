"""A join that runs during a test, which sends it records step by step."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.waiting import wait_until

from headwater.jobs import visits_ads_enrichment_job
from headwater.kafka import RecordProducer, read_topic
from headwater.model import Address, Record
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker


class RunningJoin:
    """Topics of one test, and the job between them."""

    def __init__(
        self, settings: Settings, spark: SparkSession, make_topic: TopicMaker, checkpoint: Path
    ) -> None:
        self.settings = settings
        self.checkpoint = checkpoint
        self.visits, self.ads = make_topic("visits", partitions=1), make_topic("ads", partitions=1)
        self.output = self.visits.removesuffix("visits") + "visits-enriched"
        self._spark = spark
        self._error: list[BaseException] = []
        self._seen = 0

    def options(self, *more: str) -> list[str]:
        topics = ["--visits-topic", self.visits, "--ads-topic", self.ads]
        topics += ["--output-topic", self.output, "--checkpoint", str(self.checkpoint)]
        return [*topics, "--job-name", self.output, *more]

    def run(self, *more: str) -> None:
        """Run in this thread until it ends."""
        command = visits_ads_enrichment_job.main
        command.main(self.options(*more), standalone_mode=False, obj=self.settings)

    @contextmanager
    def running(self, *more: str) -> Iterator[StreamingQuery]:
        """Run in a thread while the body runs; yields the query."""

        def work() -> None:
            try:
                self.run(*more)
            except BaseException as error:
                self._error.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            query = self._query()
            yield query
            query.stop()
        finally:
            for each in self._spark.streams.active:
                if each.name == self.output:
                    each.stop()
            thread.join(60)
        if self._error:
            raise self._error.pop()

    def _query(self) -> StreamingQuery:
        def started() -> StreamingQuery | None:
            if self._error:
                raise self._error.pop()
            active = self._spark.streams.active
            return next((query for query in active if query.name == self.output), None)

        return wait_until(started, 60, "the query to start", pause_seconds=0.05)

    def send(self, topic: str, *values: str | bytes | None) -> None:
        with RecordProducer(self.settings.kafka) as producer:
            for value in values:
                data = value.encode() if isinstance(value, str) else value
                producer.send(topic, data, b"raw key")

    def visit(self, *visits: tuple[str, str, str]) -> None:
        """Visits as (id, time of 2024-01-01, page)."""
        self.send(self.visits, *(visit(*each) for each in visits))

    def ad(self, *ads: tuple[str, str, str]) -> None:
        """Ads as (page, time of 2024-01-01, campaign)."""
        self.send(self.ads, *(ad(*each) for each in ads))

    def records(self, suffix: str = "") -> list[Record]:
        return list(read_topic(self.output + suffix, self.settings.kafka))

    def new_values(self) -> list[str]:
        """The output since the last call, sorted."""
        values = [(record.value or b"").decode() for record in self.records()]
        new, self._seen = values[self._seen :], len(values)
        return sorted(new)

    def wait_for_records(self, count: int) -> None:
        def written() -> bool:
            assert not self._error, self._error
            return len(self.records()) >= count

        wait_until(written, 90, f"{count} records in {self.output}", pause_seconds=0.2)

    def visit_at(self, offset: int) -> Address:
        return Address(self.visits, 0, offset)

    def ad_at(self, offset: int) -> Address:
        return Address(self.ads, 0, offset)


def watermark(query: StreamingQuery) -> str:
    """The newest watermark, as a time of day."""
    progress: Any = query.lastProgress
    return str(progress["eventTime"]["watermark"])[11:19]


def state_rows(query: StreamingQuery) -> int:
    """Rows in the state of the join."""
    progress: Any = query.lastProgress
    return int(progress["stateOperators"][0]["numRowsTotal"])


def dropped(query: StreamingQuery) -> int:
    """Rows that Spark dropped itself, in all batches that it keeps."""
    progresses: Sequence[Any] = query.recentProgress
    return sum(
        each["numRowsDroppedByWatermark"]
        for progress in progresses
        for each in progress["stateOperators"]
    )


def visit(visit_id: str, time: str, page: str) -> str:
    return json.dumps({"visit_id": visit_id, "event_time": _instant(time), "page": page})


def ad(page: str, time: str, campaign: str) -> str:
    return json.dumps({"page": page, "display_time": _instant(time), "campaign_name": campaign})


def _instant(time: str) -> str:
    if ":" not in time:
        return time
    return f"2024-01-01T{time}{'.000' if '.' not in time else ''}+00:00"
