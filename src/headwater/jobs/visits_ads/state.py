"""What a join keeps in its state: told as metrics, and held against a limit."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.errors import StateLimitError
from headwater.jobs.visits_ads.metrics import JoinMetrics
from headwater.jobs.visits_ads.rule import ADS, VISITS

_LOG = logging.getLogger(__name__)

# From here on each batch that grows the state is told of.
_WARN_AT = 0.8
_DISK = "rocksdbSstFileSize"


@dataclass(frozen=True)
class StateLimits:
    """How much a state may hold; None: as much as comes."""

    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class StateSize:
    """What a state holds behind a micro-batch.

    Bytes are those that Spark reports: of a store in memory its rows, of RocksDB its memory and
    its files, whichever is more.
    """

    rows: int
    bytes: int

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> StateSize:
        operators = progress["stateOperators"]
        memory = sum(each["memoryUsedBytes"] for each in operators)
        disk = sum((each.get("customMetrics") or {}).get(_DISK, 0) for each in operators)
        return cls(sum(each["numRowsTotal"] for each in operators), max(memory, disk))


class StateWatch:
    """Takes what Spark tells of each batch of a join."""

    def __init__(
        self,
        limits: StateLimits,
        metrics: JoinMetrics | None = None,
    ) -> None:
        self._limits = limits
        self._metrics = metrics
        self._warned_at = StateSize(0, 0)

    def take(self, progress: Mapping[str, Any]) -> None:
        """Count, warn, or refuse to go on.

        Raises:
            StateLimitError: the state has reached a limit.
        """
        size = StateSize.of(progress)
        dropped = sum(each["numRowsDroppedByWatermark"] for each in progress["stateOperators"])
        if dropped:
            # Late rows are taken out before the join: this would be a fault of Headwater's own.
            _LOG.error(
                "batch %d: Spark dropped %d late rows itself; this is a bug, please report it",
                progress["batchId"],
                dropped,
            )
        if self._metrics is not None:
            self._metrics.state(size.rows, size.bytes)
            self._metrics.dropped(dropped)
            for side in (VISITS, ADS):
                counted = progress.get("observedMetrics", {}).get(side)
                if counted is not None:
                    self._metrics.read(
                        side, counted["records"], counted["late"], counted["malformed"]
                    )
        for what, now, limit, option in (
            ("rows", size.rows, self._limits.rows, "--max-state-rows"),
            ("bytes", size.bytes, self._limits.bytes, "--max-state-mb"),
        ):
            self._hold(progress["batchId"], what, now, limit, option)
        self._warned_at = size

    def _hold(self, batch: int, what: str, now: int, limit: int | None, option: str) -> None:
        if limit is None or now < limit * _WARN_AT:
            return
        if now >= limit:
            raise StateLimitError(
                f"the state of the join has {now:,} {what} after batch {batch}, {limit:,} are "
                "allowed",
                hint=f"raise {option}; or shorten the bounds or the watermarks, or set "
                "--idle-timeout if one of the topics is quiet (`--explain` tells what each does)",
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
