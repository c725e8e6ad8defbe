"""Does lineage reach the catalog? Checks for `headwater doctor`, which fail loudly.

The test event is of a job of its own, in a namespace of its own (`headwater-checks`), whose one run
has the same id every day: however often it is asked, the catalog has that one job and run more.
"""

from __future__ import annotations

import http.client
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from headwater.errors import HeadwaterError
from headwater.model import CHECKS_NAMESPACE
from headwater.openlineage.backlog import refused_path, waiting
from headwater.openlineage.events import instant, run_event
from headwater.openlineage.transport import Answer, CatalogClient, Delivered
from headwater.settings import Settings

_JOB = "lineage_arrives"
_URL_HINT = "`headwater up catalog`, or set MARQUEZ_URL to the service that is to hear of jobs"


@dataclass(frozen=True)
class LineageCheck:
    """The answer of one check."""

    name: str
    ok: bool
    text: str
    hint: str | None = None


def validate(
    settings: Settings, *, send: bool = True, namespace_needed: bool = False
) -> list[LineageCheck]:
    """Check transport, namespace, arrival and spool; a check that needs another stops at it.

    Args:
        send: whether a test event may be sent.
        namespace_needed: whether a namespace that is not there yet is an error. The first event
            of a job makes it.
    """
    if not settings.lineage.enabled:
        return [LineageCheck("lineage", True, "switched off (lineage.enabled)")]
    try:
        client = CatalogClient.from_settings(settings)
    except HeadwaterError as error:
        return [LineageCheck("transport", False, error.message, error.hint)]
    found = [_transport(client)]
    try:
        if found[0].ok:
            found.append(_namespace(client, settings, namespace_needed))
            if send:
                found.append(_arrival(client))
    finally:
        client.close()
    found.append(_spool(settings))
    return found


def _transport(client: CatalogClient) -> LineageCheck:
    return _asked("transport", client, "/api/v1/namespaces?limit=1", lambda answer: "answers")


def _namespace(client: CatalogClient, settings: Settings, needed: bool) -> LineageCheck:
    name = settings.lineage.namespace
    path = f"/api/v1/namespaces/{quote(name, safe='')}"
    found = _asked("namespace", client, path, lambda answer: f"{name!r} is there")
    if found.ok:
        return found
    hint = "`PUT /api/v1/namespaces/…` makes it, too"
    text = f"{client.url}: {name!r} is not there yet, the first event of a job makes it"
    return LineageCheck("namespace", not needed, text, hint)


def _arrival(client: CatalogClient) -> LineageCheck:
    """Send an event and ask for it back."""
    run_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{CHECKS_NAMESPACE}/{_JOB}"))
    event = run_event("COMPLETE", run_id, CHECKS_NAMESPACE, _JOB, event_time=datetime.now(UTC))
    outcome = client.send(json.dumps(event).encode())
    if not isinstance(outcome, Delivered):
        text = getattr(outcome, "reason", None) or f"refused: {getattr(outcome, 'answer', '')}"
        return LineageCheck("events", False, text[:300], "look at MARQUEZ_API_KEY and the log")
    job = f"/api/v1/namespaces/{CHECKS_NAMESPACE}/jobs/{_JOB}"
    sent = instant(datetime.fromisoformat(event["eventTime"]))

    def told(answer: Answer) -> str:
        return f"one of {sent} has arrived, as {CHECKS_NAMESPACE}/{_JOB}"

    return _asked("events", client, job, told)


def _asked(
    name: str, client: CatalogClient, path: str, told: Callable[[Answer], str]
) -> LineageCheck:
    try:
        answer = client.request("GET", path)
    except (OSError, http.client.HTTPException) as error:
        return LineageCheck(name, False, f"{client.url} can't be reached: {error}", _URL_HINT)
    if answer.status == 200:
        return LineageCheck(name, True, f"{client.url}: {told(answer)}")
    key = "look at MARQUEZ_API_KEY" if answer.status in (401, 403) else _URL_HINT
    return LineageCheck(name, False, f"{client.url} answers {answer.status} to {path}", key)


def _spool(settings: Settings) -> LineageCheck:
    root = settings.spool_dir
    left = [each for each in waiting(root) if not each.alive]
    events = sum(each.events for each in left)
    if events:
        text = f"{events} events of jobs that have ended wait in {root}"
        return LineageCheck("spool", False, text, "`headwater lineage spool flush`")
    if refused_path(root).is_file():
        text = f"the catalog has refused events: {refused_path(root)}"
        return LineageCheck("spool", False, text, "look at `answer` in it, and remove the file")
    return LineageCheck("spool", True, f"nothing waits in {root}")
