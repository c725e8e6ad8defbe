"""Derived values of the catalog metrics."""

from __future__ import annotations

from datetime import UTC, datetime

from headwater.catalog.metrics.values import CatalogMetrics, NamedValue

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_stalest_dataset_may_be_one_without_its_own_series() -> None:
    named = (NamedValue("data", "a", 5.0), NamedValue("data", "b", 60.0))
    assert CatalogMetrics(NOW).stalest_seconds is None
    assert CatalogMetrics(NOW, freshness=named).stalest_seconds == 60
    assert CatalogMetrics(NOW, freshness=named, stalest_other=90.0).stalest_seconds == 90
