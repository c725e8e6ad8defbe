"""The result of a benchmark: measurements, targets for some of them, and the machine's state."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """One measured value. `at_least` or `at_most` is the target, if there is one."""

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
    def target(self) -> str:
        """The target as text; empty without one."""
        if self.at_most is not None:
            return f"at most {self.at_most:,g}"
        return "" if self.at_least is None else f"at least {self.at_least:,g}"


@dataclass(frozen=True)
class Machine:
    """The machine that was measured on."""

    cores: int
    python: str
    load_before: float
    load_after: float


@dataclass
class BenchResult:
    """All measurements of one benchmark."""

    name: str
    repeats: int
    measurements: list[Measurement] = field(default_factory=list)
    machine: Machine | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "repeats": self.repeats,
            "figures": [{**asdict(each), "met": each.met} for each in self.measurements],
            "machine": None if self.machine is None else asdict(self.machine),
        }


def machine_now(load_before: float) -> Machine:
    """The machine at the end of a benchmark."""
    return Machine(os.cpu_count() or 1, platform.python_version(), load_before, load_now())


def load_now() -> float:
    """Runnable processes, averaged over a minute."""
    return round(os.getloadavg()[0], 2)
