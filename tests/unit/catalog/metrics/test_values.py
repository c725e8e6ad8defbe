"""Figures of a catalog, from what one look found."""

from __future__ import annotations

from datetime import UTC, datetime

from headwater.catalog.metrics.values import Measures, Named

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_stalest_dataset_may_be_one_that_is_not_named() -> None:
    named = (Named("data", "a", 5.0), Named("data", "b", 60.0))
    assert Measures(NOW).stalest_seconds is None
    assert Measures(NOW, freshness=named).stalest_seconds == 60
    assert Measures(NOW, freshness=named, stalest_other=90.0).stalest_seconds == 90
