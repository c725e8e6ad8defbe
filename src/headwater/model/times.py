"""Times as Kafka and Spark count them."""

from __future__ import annotations

from datetime import UTC, datetime

_LATEST_MS = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp() * 1000)


def from_epoch_ms(millis: int) -> datetime:
    """The time so many milliseconds after 1970. Spark knows later ones than Python: of those, the
    last day that Python knows."""
    return datetime.fromtimestamp(min(millis, _LATEST_MS) / 1000, UTC)
