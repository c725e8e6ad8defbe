"""The rate of the generator on one core, without sending."""

from __future__ import annotations

import statistics
import time
from collections import deque

from headwater.bench.result import BenchResult, Measurement, load_now, machine_now
from headwater.generator import KINDS, Blemishes, generate
from headwater.settings import Settings

_ROWS = 200_000
_REPEATS = 5
_TARGET = 50_000
_BLEMISHED = Blemishes(duplicates=2, missing=2, malformed=2, late=2)


def measure(settings: Settings) -> BenchResult:
    """Medians for each kind, without blemishes and with 2 % of each."""
    load = load_now()
    result = BenchResult("generator", _REPEATS)
    for kind in KINDS:
        for label, blemishes in (("", Blemishes()), (", blemished", _BLEMISHED)):
            rate = statistics.median(_rate(kind, blemishes) for _ in range(_REPEATS))
            result.measurements.append(
                Measurement(f"{kind}{label}", round(rate), "records/s", _TARGET)
            )
    result.machine = machine_now(load)
    return result


def _rate(kind: str, blemishes: Blemishes) -> float:
    began = time.process_time()
    deque(generate(kind, _ROWS, seed=1, blemishes=blemishes), maxlen=0)
    return _ROWS / (time.process_time() - began)
