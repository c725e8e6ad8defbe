"""Queries about records while Kafka is unavailable, and what their errors reveal."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.catalog.api.problems import ApiError
from headwater.errors import InputError
from headwater.service.record_queries import KafkaRecordQueries
from headwater.service.record_query_pool import RecordQueryPool
from headwater.settings import Settings, load


@pytest.fixture
def without_kafka(tmp_path: Path) -> Iterator[Settings]:
    """Settings with a broker that accepts connections and does not respond."""
    with socket.create_server(("127.0.0.1", 0)) as paused:
        yield load(
            home=tmp_path / "home",
            kafka={
                "bootstrap_servers": f"127.0.0.1:{paused.getsockname()[1]}",
                "timeout_seconds": 30,
            },
            archive={"folder": tmp_path / "elsewhere" / "archive"},
            index={"table": tmp_path / "elsewhere" / "index"},
        )


def test_queries_get_503_with_the_reason_while_kafka_does_not_respond(
    without_kafka: Settings,
) -> None:
    queries = KafkaRecordQueries(without_kafka)
    pool = RecordQueryPool(queries)

    async def query() -> ApiError:
        with pytest.raises(ApiError) as caught:
            await pool.run(lambda: queries.ancestry("visits", 0, 0))
        return caught.value

    async def eight() -> list[ApiError]:
        return await asyncio.gather(*(query() for _ in range(8)))

    began = time.monotonic()
    errors = asyncio.run(eight())
    assert time.monotonic() - began < 18
    pool.close()
    assert {error.status for error in errors} == {503}
    assert {error.message for error in errors} == {"Kafka does not respond to the service"}


def test_errors_for_clients_contain_no_folder(without_kafka: Settings) -> None:
    queries = KafkaRecordQueries(without_kafka)
    folders = [without_kafka.home_dir, without_kafka.archive.folder, without_kafka.index.table]
    for folder in folders:
        error = InputError(f"no table at {folder}/visits", hint=f"create {folder}")
        shown = queries._without_addresses(error)
        assert (shown.message, shown.hint) == ("no table at …/visits", "create …")
