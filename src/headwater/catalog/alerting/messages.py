"""What a channel is told: one message when an incident begins, and one when it ends."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from headwater.catalog.alerting.state import Change

MAX_DOWNSTREAM = 20
_SUBJECT = re.compile(
    r"(?P<kind>\w+):(?P<namespace>\w+://[^:]*(?::\d+(?:,[^:]*(?::\d+)?)*)?|[^:]*):(?P<name>.*)",
    re.DOTALL,
)
_MARKS = {"info": "INFO", "warning": "WARNING", "critical": "CRITICAL"}


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `incident` and `kind` together are the same for each copy of it."""

    incident: str
    kind: Change
    alert: str
    severity: str
    at: str
    subject: str | None = None
    # Of the subject, where it is known: both may hold colons.
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
        """For people; each fact on a line of its own."""
        lines = [self.summary] if self.summary else []
        if self.subject:
            lines.append(f"what: {self._about()}")
        lines.append(f"condition: {self.condition}")
        if self.value:
            lines.append(f"found: {self.value}")
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
            return plain(subject)
        return f"{subject.partition(':')[0]} {self.name} ({self.namespace})"

    def _downstream(self) -> str:
        shown = [plain(each) for each in self.downstream[:MAX_DOWNSTREAM]]
        more = self.downstream_count - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more > 0 else "")

    def payload(self) -> dict[str, Any]:
        """What a webhook gets: the same facts as JSON."""
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
        """For keeping; `from_json` reads it."""
        return asdict(self)


def from_json(kept: dict[str, Any]) -> Message:
    return Message(
        **{
            **kept,
            "kind": Change(kept["kind"]),
            "downstream": tuple(kept["downstream"]),
        }
    )


def trial(channel: str) -> Message:
    """A message that only shows that messages arrive."""
    return Message(
        incident="00000000-0000-0000-0000-000000000000",
        kind=Change.FIRED,
        alert="test",
        severity="info",
        at="",
        summary=f"This is a test of the channel {channel}. Nothing is wrong.",
        condition="true",
    )


def plain(subject: str) -> str:
    """`dataset:data:visits` as a person says it: `dataset visits (data)`.

    A guess where names hold colons: a namespace does if it is an address, `kafka://host:9092`.
    """
    found = _SUBJECT.fullmatch(subject)
    return f"{found['kind']} {found['name']} ({found['namespace']})" if found else subject


def _one_line(text: str) -> str:
    # Names come from anybody: none may begin a line of its own, or a header of an e-mail.
    return "".join(mark if mark.isprintable() else " " for mark in text)[:1000]
