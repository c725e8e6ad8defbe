"""Questions to the lineage service: bounded, and the key stays with it."""

from __future__ import annotations

import pytest
from tests.fault_server import drip, serving, status

from headwater.errors import InputError, ServiceAnswerError
from headwater.service import catalog_client as asking
from headwater.service.catalog_client import ask
from headwater.settings import load


def test_the_key_does_not_follow_a_redirect() -> None:
    with serving(status(200, "{}")) as elsewhere:
        there = f"Location: {elsewhere.url}/api/v1/alerts"
        with serving(status(302, "", there)) as server:
            settings = load(catalog={"url": server.url, "api_key": "s3cr3t"})
            with pytest.raises(ServiceAnswerError, match="answered 302"):
                ask(settings, "/api/v1/alerts")
    assert elsewhere.requests == 0


def test_answers_larger_than_those_to_events_are_read_whole() -> None:
    with serving(status(200, f'["{"x" * 500_000}"]')) as server:
        assert len(ask(load(catalog={"url": server.url}), "/api/v1/alerts")[0]) == 500_000


def test_a_service_that_is_slow_wrong_or_closed_says_which_setting_to_look_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "_SECONDS", 0.3)
    with serving(drip, status(200, "<html>"), status(401)) as server:
        settings = load(catalog={"url": server.url})
        for _ in range(2):
            with pytest.raises(ServiceAnswerError) as unanswered:
                ask(settings, "/api/v1/alerts")
            assert "MARQUEZ_URL" in str(unanswered.value.hint)
        with pytest.raises(InputError, match="wants a key"):
            ask(settings, "/api/v1/alerts")
    with pytest.raises(InputError, match="MARQUEZ_URL"):
        ask(load(catalog={"url": "http://a..b"}), "/api/v1/alerts")
