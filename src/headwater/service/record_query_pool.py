"""Questions about single records, which others answer: what holds records lies above the catalog.

Whoever starts the service hands in the answers (`headwater serve` does); here they are asked
beside the event loop, few at a time and not for ever.
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
    QueryTimeoutError,
    TooBusyError,
    UnavailableError,
)

# Each holds a Kafka consumer and a thread; further ones wait.
_AT_ONCE = 2
_MAX_WAITING = 8
# A person waits for it. Readers of Kafka have bounds of their own, and end some time after it.
_SECONDS = 20.0


class RecordQuestions(Protocol):
    """What can be asked about a record. The methods block."""

    def ancestry(self, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
        """The record and those it was made from, with values; None if there is no such record."""
        ...

    def impact(self, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
        """What was made from it, with counts."""
        ...

    def replay(self, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
        """How to make it again, and what that would do."""
        ...


class RecordQueryPool:
    """Takes questions about records, and lets them be answered; one per service."""

    def __init__(self, questions: RecordQuestions | None) -> None:
        self._questions = questions
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="headwater-records")
        self._waiting = 0

    @property
    def questions(self) -> RecordQuestions:
        """Raises:
        ApiError: 404, this service was started without.
        """
        if self._questions is None:
            raise refused(404, "this service was started without a way to read records")
        return self._questions

    async def ask(self, question: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
        """Raises:
        TooBusyError, QueryTimeoutError: 429, when many ask or the answer takes long.
        ApiError: 503 with a hint, when the answer can't be had as things stand.
        """
        if self._waiting >= _MAX_WAITING:
            raise TooBusyError(
                f"{_MAX_WAITING} questions about records are waiting or being answered already",
                hint=f"{_AT_ONCE} are answered at once: ask again in a moment",
            )
        self._waiting += 1
        asked = asyncio.get_running_loop().run_in_executor(self._threads, question)
        asked.add_done_callback(self._done)
        try:
            async with asyncio.timeout(_SECONDS):
                # The thread can't be stopped: it keeps its place until it ends.
                return await asyncio.shield(asked)
        except TimeoutError:
            raise QueryTimeoutError(
                f"no answer about the record within {_SECONDS:.0f} s",
                hint="ask again, or on the command line, which waits longer",
            ) from None
        except ApiError:
            raise
        except (InputError, UnavailableError) as error:
            raise _unanswered(error) from None

    def close(self) -> None:
        """Take no more questions; what is being answered ends by its own bounds."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _done(self, asked: asyncio.Future[Any]) -> None:
        self._waiting -= 1
        if not asked.cancelled():
            # Looked at, so that one that nobody waits for any more is not told as lost.
            asked.exception()


def _unanswered(error: HeadwaterError) -> ApiError:
    return refused(503, error.message, *([error.hint] if error.hint else []))


def desk_of(request: Request) -> RecordQueryPool:
    found = request.app.state.records
    assert isinstance(found, RecordQueryPool)  # noqa: S101 - set by create_api
    return found
