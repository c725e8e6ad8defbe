"""Does lineage reach the catalog? Checks for `headwater doctor`, which fail loudly.

The test event is of a job of its own, in a namespace of its own (`headwater-checks`), whose one run
has the same id every day: however often it is asked, the catalog has that one job and run more.
"""

from __future__ import annotations

import http.client
import json
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from headwater.errors import CheckFailedError, HeadwaterError
from headwater.model import CHECKS_NAMESPACE
from headwater.openlineage.events import run_event
from headwater.openlineage.spool.losses import lost_path, read_lost
from headwater.openlineage.spool.orphans import refused_path, waiting
from headwater.openlineage.transport import Answer, CatalogClient, Delivered, Later
from headwater.settings import Settings

SWITCHED_OFF = "switched off (lineage.enabled)"
_JOB = "lineage_arrives"
# A run with all its facets is larger than what a person needs of an error.
_MAX_ANSWER = 16 * 1024 * 1024
_SPOOL_HINT = "see to the disk, or set HEADWATER_LINEAGE__SPOOL"
_URL_HINT = "`headwater up catalog`, or set MARQUEZ_URL to the service that is to hear of jobs"


@dataclass(frozen=True)
class LineageCheck:
    """The answer of one check."""

    name: str
    ok: bool
    text: str
    hint: str | None = None


def validate(settings: Settings, *, send: bool = True) -> Iterator[LineageCheck]:
    """Check transport, namespace, arrival and spool; a check that needs another stops at it.

    Args:
        send: whether a test event may be sent.
    """
    if not settings.lineage.enabled:
        yield LineageCheck("lineage", True, SWITCHED_OFF)
        return
    try:
        client = CatalogClient.from_settings(settings)
    except HeadwaterError as error:
        yield LineageCheck("transport", False, error.message, error.hint)
        return
    try:
        transport = _found("transport", lambda: _transport(client))
        yield transport
        if transport.ok:
            yield _found("namespace", lambda: _namespace(client, settings.lineage.namespace))
            if send:
                yield _found("events", lambda: _arrival(client))
    finally:
        client.close()
    yield _spool(settings)


def ask(client: CatalogClient, path: str, *known: int) -> Answer:
    """The catalog's answer to GET; a status that is neither 200 nor among the known ones fails.

    Raises:
        CheckFailedError: it does not answer, or not so.
    """
    try:
        answer = client.request("GET", path, max_bytes=_MAX_ANSWER)
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        raise CheckFailedError(f"{client.url} can't be reached: {reason}", hint=_URL_HINT) from None
    if answer.status != 200 and answer.status not in known:
        hint = "look at MARQUEZ_API_KEY" if answer.status in (401, 403) else _URL_HINT
        raise CheckFailedError(f"{client.url} answers {answer.status} to {path}", hint=hint)
    return answer


def ask_for_run(client: CatalogClient, run_id: str) -> dict[str, Any] | None:
    """A run as the catalog has it; None if it has none.

    Raises:
        CheckFailedError: it does not answer, or not with a run.
    """
    answer = ask(client, f"/api/v1/jobs/runs/{run_id}", 404)
    if answer.status == 404:
        return None
    try:
        run = json.loads(answer.text)
    except ValueError:
        run = None
    if not isinstance(run, dict):
        raise CheckFailedError(f"{client.url} answers with no run to {run_id}", hint=_URL_HINT)
    return run


def _transport(client: CatalogClient) -> str:
    ask(client, "/api/v1/namespaces?limit=1")
    return f"{client.url}: answers"


def _namespace(client: CatalogClient, name: str) -> str:
    answer = ask(client, f"/api/v1/namespaces/{quote(name, safe='')}", 404)
    if answer.status == 404:
        return f"{client.url}: {name!r} is not there yet, the first event of a job makes it"
    return f"{client.url}: {name!r} is there"


def _arrival(client: CatalogClient) -> str:
    """Send an event and ask for it back."""
    run_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{CHECKS_NAMESPACE}/{_JOB}"))
    event = run_event("COMPLETE", run_id, CHECKS_NAMESPACE, _JOB, event_time=datetime.now(UTC))
    outcome = client.send(json.dumps(event).encode())
    if not isinstance(outcome, Delivered):
        text = outcome.reason if isinstance(outcome, Later) else f"refused: {outcome.answer}"
        raise CheckFailedError(text[:300], hint="look at MARQUEZ_API_KEY and the log")
    sent = event["eventTime"]
    # The run is the same every day: only its end tells whether it is this event that arrived.
    ended = (ask_for_run(client, run_id) or {}).get("endedAt")
    if not _same_moment(ended, sent):
        raise CheckFailedError(
            f"{client.url} took an event of {sent}, and shows the run with another end: {ended}",
            hint="ask again: another check may have come between; a clock may be ahead. Then look "
            "at the log of the service",
        )
    return f"{client.url}: one of {sent} has arrived, as {CHECKS_NAMESPACE}/{_JOB}"


def _same_moment(shown: Any, sent: str) -> bool:
    try:
        difference = datetime.fromisoformat(str(shown)) - datetime.fromisoformat(sent)
    except (ValueError, TypeError):
        return False
    # Marquez keeps milliseconds.
    return abs(difference) < timedelta(milliseconds=1)


def _found(name: str, check: Callable[[], str]) -> LineageCheck:
    try:
        return LineageCheck(name, True, check())
    except HeadwaterError as error:
        return LineageCheck(name, False, error.message, error.hint)


def _spool(settings: Settings) -> LineageCheck:
    root = settings.spool_dir
    left = [each for each in waiting(root) if not each.alive]
    events = sum(each.events for each in left)
    if events:
        text = f"{events} events of jobs that have ended wait in {root}"
        return LineageCheck("spool", False, text, "`headwater lineage spool flush`")
    if unread := [each.trouble for each in left if each.trouble]:
        text = f"what waits in {root} can't be read: {unread[0]}"
        return LineageCheck("spool", False, text, _SPOOL_HINT)
    if refused_path(root).is_file():
        text = f"the catalog has refused events: {refused_path(root)}"
        return LineageCheck("spool", False, text, "look at `answer` in it, and remove the file")
    if lost := read_lost(root):
        text = f"{lost.events} events were lost, the last at {lost.at}: {lost.reason}"
        return LineageCheck("spool", False, text, f"see to that, and remove {lost_path(root)}")
    existing = next(path for path in (root, *root.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        text = f"nothing can be written to {root}: events would be lost"
        return LineageCheck("spool", False, text, _SPOOL_HINT)
    return LineageCheck("spool", True, f"nothing waits in {root}")
