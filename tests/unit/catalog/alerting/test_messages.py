"""The content of messages, and escaping of untrusted names."""

from __future__ import annotations

from headwater.catalog.alerting.messages import MAX_DOWNSTREAM, Message, from_json, subject_text
from headwater.catalog.alerting.state import Change


def message(**changes: object) -> Message:
    values: dict[str, object] = {
        "incident": "id",
        "kind": Change.FIRED,
        "alert": "stale",
        "severity": "critical",
        "at": "2026-11-16T10:00:00Z",
        "subject": "dataset:kafka://host:9092:visits",
        "condition": "dataset.freshness_seconds > 60",
        **changes,
    }
    return Message(**values)  # type: ignore[arg-type]


def test_the_title_has_severity_alert_and_subject() -> None:
    assert message().title == "[CRITICAL] stale - dataset visits (kafka://host:9092)"
    assert message(kind=Change.ENDED, subject=None).title == "[ENDED] stale"


def test_names_with_colons_are_not_split() -> None:
    known = message(subject="job:a:b:c", namespace="a:b", name="c")
    assert known.title == "[CRITICAL] stale - job c (a:b)"
    guessed = {
        "job:shop:load:visits": "job load:visits (shop)",
        "dataset:kafka://a:9092,b:9092:visits": "dataset visits (kafka://a:9092,b:9092)",
        "dataset:s3://bucket:a:b": "dataset a:b (s3://bucket)",
        "nothing": "nothing",
    }
    assert {subject: subject_text(subject) for subject in guessed} == guessed


def test_a_name_can_not_start_a_line_or_an_email_header() -> None:
    evil = message(subject="job:ns:x\r\nBcc: all@example.com\nrunbook: \u202eevil\x07")
    assert "\n" not in evil.title
    assert "\r" not in evil.title
    assert [line for line in evil.text.splitlines() if line.startswith(("Bcc", "runbook"))] == []
    assert not {"\x07", "\u202e", "\r"} & set(evil.text)


def test_downstream_names_are_bounded_and_counted() -> None:
    names = tuple(f"dataset:data:d{i}" for i in range(MAX_DOWNSTREAM + 5))
    text = message(downstream=names, downstream_count=30).text
    assert "dataset d0 (data)" in text
    assert f"d{MAX_DOWNSTREAM - 1} (data) and 10 more" in text
    payload = message(downstream=names, downstream_count=30).payload()
    assert (len(payload["downstream"]), payload["downstreamCount"]) == (MAX_DOWNSTREAM, 30)


def test_a_stored_message_is_restored() -> None:
    original = message(downstream=("job:a:b",), downstream_count=1)
    assert from_json(original.as_json()) == original
