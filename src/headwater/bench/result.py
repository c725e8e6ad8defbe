"""What a measurement gives: figures, the bar for some of them, and the machine's state."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One measured value. `at_least` or `at_most` is the bar, where there is one."""

    name: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool | None:
        if self.at_most is not None:
            return self.value <= self.at_most
        return None if self.at_least is None else self.value >= self.at_least

    @property
    def bar(self) -> str:
        """The bar in words; empty without one."""
        if self.at_most is not None:
            return f"at most {self.at_most:,g}"
        return "" if self.at_least is None else f"at least {self.at_least:,g}"


@dataclass(frozen=True)
class Machine:
    """What the figures depend on."""

    cores: int
    python: str
    load_before: float
    load_after: float


@dataclass
class BenchResult:
    """All figures of one measurement."""

    name: str
    repeats: int
    figures: list[Figure] = field(default_factory=list)
    machine: Machine | None = None

    def as_json(self) -> dict[str, Any]:
        content = asdict(self)
        content["figures"] = [{**asdict(f), "met": f.met} for f in self.figures]
        return content


def machine_now(load_before: float) -> Machine:
    """The machine as it is at the end of a measurement."""
    return Machine(os.cpu_count() or 1, platform.python_version(), load_before, load_now())


def load_now() -> float:
    """Processes that want to run, averaged over a minute."""
    return round(os.getloadavg()[0], 2)
