"""Monitors the size of the state of a join: metrics and limits."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.errors import StateLimitError
from headwater.join.metrics import JoinMetrics

_LOG = logging.getLogger(__name__)

# Share of a limit from which a growing state is logged.
_WARN_AT = 0.8
_DISK = "rocksdbSstFileSize"


@dataclass(frozen=True)
class StateLimits:
    """Limits of the state; None: unlimited."""

    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class StateSize:
    """Size of the state after a micro-batch.

    Bytes are as reported by Spark: the rows of a store in memory, or for RocksDB the maximum of its
    memory and its files.
    """

    rows: int
    bytes: int

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> StateSize:
        operators = progress["stateOperators"]
        memory = sum(each["memoryUsedBytes"] for each in operators)
        disk = sum((each.get("customMetrics") or {}).get(_DISK, 0) for each in operators)
        return cls(sum(each["numRowsTotal"] for each in operators), max(memory, disk))


class StateMonitor:
    """Checks the state after each batch of a join.

    Args:
        sides: the names of the sides in Spark's observed metrics.
    """

    def __init__(
        self,
        limits: StateLimits,
        metrics: JoinMetrics | None = None,
        sides: Sequence[str] = (),
    ) -> None:
        self._limits = limits
        self._metrics = metrics
        self._sides = sides
        self._warned_at = StateSize(0, 0)

    def take(self, progress: Mapping[str, Any]) -> None:
        """Update metrics, log a warning near a limit, fail at the limit.

        Raises:
            StateLimitError: the state has reached a limit.
        """
        size = StateSize.of(progress)
        dropped = sum(each["numRowsDroppedByWatermark"] for each in progress["stateOperators"])
        if dropped:
            # Late rows are removed before the join, so this is a bug of Headwater.
            _LOG.error(
                "batch %d: Spark dropped %d late rows itself; this is a bug, please report it",
                progress["batchId"],
                dropped,
            )
        if self._metrics is not None:
            self._metrics.state(size.rows, size.bytes)
            self._metrics.dropped(dropped)
            for side in self._sides:
                counted = progress.get("observedMetrics", {}).get(side)
                if counted is not None:
                    self._metrics.read(
                        side, counted["records"], counted["late"], counted["malformed"]
                    )
        for what, now, limit, option in (
            ("rows", size.rows, self._limits.rows, "max_state_rows (--max-state-rows)"),
            ("bytes", size.bytes, self._limits.bytes, "max_state_bytes (--max-state-mb)"),
        ):
            self._check_limit(progress["batchId"], what, now, limit, option)
        self._warned_at = size

    def _check_limit(self, batch: int, what: str, now: int, limit: int | None, option: str) -> None:
        if limit is None or now < limit * _WARN_AT:
            return
        if now >= limit:
            raise StateLimitError(
                f"the state of the join has {now:,} {what} after batch {batch}, the limit is "
                f"{limit:,}",
                hint=f"raise {option}; or reduce the bounds or the watermarks, or set "
                "idle_timeout (--idle-timeout) if one of the topics is idle",
                **{what: now, "limit": limit, "batch": batch},
            )
        if now > getattr(self._warned_at, what):
            _LOG.warning(
                "the state has %s %s after batch %d, %s of %s",
                f"{now:,}",
                what,
                batch,
                f"{now / limit:.0%}",
                option,
            )
