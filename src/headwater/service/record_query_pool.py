"""Runs queries about single records in threads, with limits on concurrency and time.

The catalog can't read records. `headwater serve` passes in an implementation of `RecordQueries`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from fastapi import Request

from headwater.catalog.api.problems import ApiError, refused
from headwater.errors import (
    HeadwaterError,
    InputError,
    KafkaRefusedError,
    QueryTimeoutError,
    TooBusyError,
    UnavailableError,
)

# Concurrent queries: each uses a Kafka consumer and a thread. Further ones are queued.
_CONCURRENCY = 2
# Queued and running queries together.
_MAX_PENDING = 8
# A user waits for the response. Kafka readers have their own timeouts and may end later.
_TIMEOUT_SECONDS = 20.0


class RecordQueries(Protocol):
    """Queries about a record. The methods block."""

    def ancestry(self, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
        """The record and its ancestors, with values; None if there is no such record."""
        ...

    def impact(self, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
        """The records derived from it, with counts."""
        ...

    def replay(self, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
        """The command that produces it again, and its dry run."""
        ...


class RecordQueryPool:
    """Runs queries about records. One instance per service."""

    def __init__(
        self,
        queries: RecordQueries | None,
        *,
        max_pending: int = _MAX_PENDING,
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> None:
        self._queries = queries
        self._max_pending = max_pending
        self._timeout_seconds = timeout_seconds
        self._threads = ThreadPoolExecutor(_CONCURRENCY, thread_name_prefix="headwater-records")
        self._pending = 0

    @property
    def queries(self) -> RecordQueries:
        """Raises:
        ApiError: 404, the service has no `RecordQueries`.
        """
        if self._queries is None:
            raise refused(404, "this service was started without access to records")
        return self._queries

    async def run(self, query: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
        """Raises:
        TooBusyError, QueryTimeoutError: 429, too many queries are pending, or it took too long.
        ApiError: 503 with a hint, a required resource is missing or unavailable.
        """
        if self._pending >= self._max_pending:
            raise TooBusyError(
                f"{self._max_pending} queries about records are already pending",
                hint=f"{_CONCURRENCY} run concurrently: try again in a moment",
            )
        self._pending += 1
        future = asyncio.get_running_loop().run_in_executor(self._threads, query)
        future.add_done_callback(self._done)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                # The thread can't be stopped: it counts as pending until it ends.
                return await asyncio.shield(future)
        except TimeoutError:
            raise QueryTimeoutError(
                f"the query about the record took longer than {self._timeout_seconds:.0f} s",
                hint="try again, or use the command line, which waits longer",
            ) from None
        except ApiError:
            raise
        except (InputError, UnavailableError, KafkaRefusedError) as error:
            raise _unavailable(error) from None

    def close(self) -> None:
        """Accept no more queries; running ones end by their own timeouts."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._pending -= 1
        if not future.cancelled():
            # Retrieved, so that asyncio does not log the exception of an abandoned query.
            future.exception()


def _unavailable(error: HeadwaterError) -> ApiError:
    return refused(503, error.message, *([error.hint] if error.hint else []))


def record_query_pool_of(request: Request) -> RecordQueryPool:
    pool = request.app.state.records
    assert isinstance(pool, RecordQueryPool)  # noqa: S101 - set by create_api
    return pool
