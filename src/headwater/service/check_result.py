"""The result of one check of `headwater doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CheckResult:
    """The result of one check."""

    name: str
    ok: bool
    text: str
    hint: str | None = None
