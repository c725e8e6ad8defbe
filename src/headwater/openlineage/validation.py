"""Checks for `headwater doctor`: does lineage reach the catalog?

The test event is of a separate job in the namespace `headwater-checks`, and its run always has the
same id: repeated checks add only this one job and run to the catalog.
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
from headwater.openlineage.spool.orphans import pending_events, refused_path
from headwater.openlineage.transport import CatalogClient, CatalogResponse, Delivered, RetryLater
from headwater.settings import Settings

SWITCHED_OFF = "switched off (lineage.enabled)"
_JOB = "lineage_arrives"
# A run with all its facets is larger than an error message.
_MAX_RESPONSE_BYTES = 16 * 1024 * 1024
_SPOOL_HINT = "check the disk, or set HEADWATER_LINEAGE__SPOOL"
_URL_HINT = "`headwater up catalog`, or set MARQUEZ_URL to the address of the catalog"


@dataclass(frozen=True)
class LineageCheck:
    """The result of one check."""

    name: str
    ok: bool
    text: str
    hint: str | None = None


def validate(settings: Settings, *, send: bool = True) -> Iterator[LineageCheck]:
    """Check transport, namespace, arrival and spool. Skips checks whose precondition failed.

    Args:
        send: whether to send a test event.
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
        transport = _run_check("transport", lambda: _transport(client))
        yield transport
        if transport.ok:
            yield _run_check("namespace", lambda: _namespace(client, settings.lineage.namespace))
            if send:
                yield _run_check("events", lambda: _arrival(client))
    finally:
        client.close()
    yield _spool(settings)


def request_catalog(client: CatalogClient, path: str, *known: int) -> CatalogResponse:
    """Response of the catalog to a GET; `known` lists accepted statuses besides 200.

    Raises:
        CheckFailedError: the catalog does not respond, or with another status.
    """
    try:
        response = client.request("GET", path, max_bytes=_MAX_RESPONSE_BYTES)
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        raise CheckFailedError(f"{client.url} can't be reached: {reason}", hint=_URL_HINT) from None
    if response.status != 200 and response.status not in known:
        hint = "check MARQUEZ_API_KEY" if response.status in (401, 403) else _URL_HINT
        raise CheckFailedError(f"{client.url} responds with {response.status} to {path}", hint=hint)
    return response


def request_run(client: CatalogClient, run_id: str) -> dict[str, Any] | None:
    """A run from the catalog; None if it does not exist.

    Raises:
        CheckFailedError: the catalog does not respond, or not with a run.
    """
    response = request_catalog(client, f"/api/v1/jobs/runs/{run_id}", 404)
    if response.status == 404:
        return None
    try:
        run = json.loads(response.text)
    except ValueError:
        run = None
    if not isinstance(run, dict):
        raise CheckFailedError(
            f"not a run in the response of {client.url}: {run_id}", hint=_URL_HINT
        )
    return run


def _transport(client: CatalogClient) -> str:
    request_catalog(client, "/api/v1/namespaces?limit=1")
    return f"{client.url}: reachable"


def _namespace(client: CatalogClient, name: str) -> str:
    response = request_catalog(client, f"/api/v1/namespaces/{quote(name, safe='')}", 404)
    if response.status == 404:
        return f"{client.url}: {name!r} does not exist yet; the first event of a job creates it"
    return f"{client.url}: {name!r} exists"


def _arrival(client: CatalogClient) -> str:
    """Send an event and read its run."""
    run_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{CHECKS_NAMESPACE}/{_JOB}"))
    event = run_event("COMPLETE", run_id, CHECKS_NAMESPACE, _JOB, event_time=datetime.now(UTC))
    outcome = client.send(json.dumps(event).encode())
    if not isinstance(outcome, Delivered):
        text = outcome.reason if isinstance(outcome, RetryLater) else f"refused: {outcome.response}"
        raise CheckFailedError(text[:300], hint="check MARQUEZ_API_KEY and the log of the service")
    sent = event["eventTime"]
    # The run id is always the same: only the end time shows that this event arrived.
    ended = (request_run(client, run_id) or {}).get("endedAt")
    if not _same_time(ended, sent):
        raise CheckFailedError(
            f"{client.url} accepted an event of {sent}, but the run has another end: {ended}",
            hint="retry, in case of a concurrent check or a clock that is ahead; then check the "
            "log of the service",
        )
    return f"{client.url}: the event of {sent} has arrived, as {CHECKS_NAMESPACE}/{_JOB}"


def _same_time(shown: Any, sent: str) -> bool:
    try:
        difference = datetime.fromisoformat(str(shown)) - datetime.fromisoformat(sent)
    except (ValueError, TypeError):
        return False
    # Marquez keeps milliseconds.
    return abs(difference) < timedelta(milliseconds=1)


def _run_check(name: str, check: Callable[[], str]) -> LineageCheck:
    try:
        return LineageCheck(name, True, check())
    except HeadwaterError as error:
        return LineageCheck(name, False, error.message, error.hint)


def _spool(settings: Settings) -> LineageCheck:
    root = settings.spool_dir
    ended = [each for each in pending_events(root) if not each.alive]
    events = sum(each.events for each in ended)
    if events:
        text = f"{events} events of ended jobs are queued in {root}"
        return LineageCheck("spool", False, text, "`headwater spool flush`")
    if unread := [each.trouble for each in ended if each.trouble]:
        text = f"events in {root} can't be read: {unread[0]}"
        return LineageCheck("spool", False, text, _SPOOL_HINT)
    if refused_path(root).is_file():
        text = f"the catalog refused events: {refused_path(root)}"
        return LineageCheck("spool", False, text, "see `answer` in this file, then remove it")
    if lost := read_lost(root):
        text = f"{lost.events} events were lost, most recently at {lost.at}: {lost.reason}"
        return LineageCheck("spool", False, text, f"fix the cause, then remove {lost_path(root)}")
    existing = next(path for path in (root, *root.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        text = f"{root} is not writable: events would be lost"
        return LineageCheck("spool", False, text, _SPOOL_HINT)
    return LineageCheck("spool", True, f"no events are queued in {root}")
