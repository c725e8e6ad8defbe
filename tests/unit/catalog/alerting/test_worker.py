"""The requests that Apprise sends to other services, captured in `requests`."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import requests

from headwater.catalog.alerting import worker
from headwater.catalog.alerting.messages import Message
from headwater.catalog.alerting.state import Change

# Apprise imports a module that is deprecated in Python 3.11 and removed later.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")

FIRED = Message(
    incident="5120f34d-9f81-36b3-e002-5e03eafc7eba",
    kind=Change.FIRED,
    alert="stale",
    severity="critical",
    at="2026-11-16T10:00:00Z",
    subject="dataset:data:<!channel> *visits*",
    condition="dataset.freshness_seconds > 60",
)


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The URLs and bodies of the requests."""
    sent: list[Any] = []

    def send(self: requests.Session, request: Any, **named: Any) -> requests.Response:
        sent.append((request.url, json.loads(request.body)))
        response = requests.Response()
        response.status_code, response._content, response.request = 200, b"ok", request
        return response

    monkeypatch.setattr(requests.Session, "send", send)
    return sent


def send(address: str, message: Message) -> str | None:
    return worker._send({"address": address, "payload": message.payload(), "seconds": 5})


def test_a_pagerduty_incident_is_resolved_when_the_alert_ends(posted: list[Any]) -> None:
    address = f"pagerduty://{'i' * 32}@{'k' * 20}/source/component?region=eu"
    assert send(address, FIRED) is None
    assert send(address, dataclasses.replace(FIRED, kind=Change.ENDED)) is None
    (url, first), (_, second) = posted
    assert url == "https://events.eu.pagerduty.com/v2/enqueue"
    assert (first["event_action"], second["event_action"]) == ("trigger", "resolve")
    assert first["dedup_key"] == second["dedup_key"] == FIRED.incident
    assert first["payload"]["severity"] == "critical"
    assert "[CRITICAL] stale" in first["payload"]["summary"]


def test_a_dataset_name_can_not_mention_a_slack_channel(posted: list[Any]) -> None:
    address = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#data"
    assert send(address, FIRED) is None
    ((url, body),) = posted
    assert url.startswith("https://hooks.slack.com/services/")
    assert "stale" in json.dumps(body)
    assert "<!channel>" not in json.dumps(body)


def test_an_invalid_address_is_reported_without_its_secret() -> None:
    assert send("slack://s3cret", FIRED) == "the address is invalid"
