"""Fixtures for the tests of the collector."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.settings import Settings, load


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings without a catalog and with an interval that never elapses."""
    return load(
        home=tmp_path,
        kafka={"bootstrap_servers": "b:9092"},
        catalog={"url": "http://127.0.0.1:1"},
        lineage={"interval_seconds": 3600},
    )
