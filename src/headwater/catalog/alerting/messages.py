"""The messages that channels receive: one when an incident begins, and one when it ends."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from headwater.catalog.alerting.state import Change

MAX_DOWNSTREAM = 20
# Each further broker begins with a comma and contains none: a list of commas can be divided in one
# way only, so that names that anyone can choose are matched in linear time.
_SUBJECT = re.compile(
    r"(?P<kind>\w+):(?P<namespace>\w+://[^:]*(?::\d+(?:,[^:,]*(?::\d+)?)*)?|[^:]*):(?P<name>.*)",
    re.DOTALL,
)
_MARKS = {"info": "INFO", "warning": "WARNING", "critical": "CRITICAL"}


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `incident` and `kind` identify it: they are the same for each copy."""

    incident: str
    kind: Change
    alert: str
    severity: str
    at: str
    subject: str | None = None
    # Of the subject, if known. Both may contain colons.
    namespace: str | None = None
    name: str | None = None
    summary: str = ""
    condition: str = ""
    value: str = ""
    runbook: str = ""
    downstream: tuple[str, ...] = field(default=())
    downstream_count: int = 0

    @property
    def title(self) -> str:
        mark = "ENDED" if self.kind is Change.ENDED else _MARKS.get(self.severity, "WARNING")
        about = f" - {self._about()}" if self.subject else ""
        return _one_line(f"[{mark}] {self.alert}{about}")

    @property
    def text(self) -> str:
        """For people; one value per line."""
        lines = [self.summary] if self.summary else []
        if self.subject:
            lines.append(f"subject: {self._about()}")
        lines.append(f"condition: {self.condition}")
        if self.value:
            lines.append(f"value: {self.value}")
        if self.downstream:
            lines.append(f"downstream: {self._downstream()}")
        if self.runbook:
            lines.append(f"runbook: {self.runbook}")
        if self.at:
            lines.append(f"{'ended' if self.kind is Change.ENDED else 'since'}: {self.at}")
        lines.append(f"incident: {self.incident}")
        return "\n".join(_one_line(line) for line in lines)

    def _about(self) -> str:
        subject = self.subject or ""
        if self.name is None or self.namespace is None:
            return subject_text(subject)
        return f"{subject.partition(':')[0]} {self.name} ({self.namespace})"

    def _downstream(self) -> str:
        shown = [subject_text(each) for each in self.downstream[:MAX_DOWNSTREAM]]
        more = self.downstream_count - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more > 0 else "")

    def payload(self) -> dict[str, Any]:
        """The body of a webhook request: the same values as JSON."""
        return {
            "version": 1,
            "incident": self.incident,
            "state": self.kind.value,
            "alert": self.alert,
            "severity": self.severity,
            "subject": self.subject,
            "summary": self.summary,
            "condition": self.condition,
            "value": self.value,
            "runbook": self.runbook or None,
            "downstream": list(self.downstream[:MAX_DOWNSTREAM]),
            "downstreamCount": self.downstream_count,
            "at": self.at,
            "title": self.title,
            "text": self.text,
        }

    def as_json(self) -> dict[str, Any]:
        """For storage; `from_json` reads it."""
        return asdict(self)


def from_json(stored: dict[str, Any]) -> Message:
    return Message(
        **{
            **stored,
            "kind": Change(stored["kind"]),
            "downstream": tuple(stored["downstream"]),
        }
    )


def sample_message(channel: str) -> Message:
    """A message to test a channel."""
    return Message(
        incident="00000000-0000-0000-0000-000000000000",
        kind=Change.FIRED,
        alert="test",
        severity="info",
        at="",
        summary=f"This is a test of the channel {channel}. Nothing is wrong.",
        condition="true",
    )


def subject_text(subject: str) -> str:
    """`dataset:data:visits` for people: `dataset visits (data)`.

    Ambiguous if names contain colons: assumes that only namespaces which are addresses do, such
    as `kafka://host:9092`.
    """
    match = _SUBJECT.fullmatch(subject)
    return f"{match['kind']} {match['name']} ({match['namespace']})" if match else subject


def _one_line(text: str) -> str:
    # Names are untrusted: they must not start a new line, or an e-mail header.
    return "".join(char if char.isprintable() else " " for char in text)[:1000]
