"""Local files as URIs."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.model.local_files import file_uri, local_path


@pytest.mark.parametrize("location", ["/data/x", "file:/data/x", "file:///data/x"])
def test_a_local_location_has_a_path(location: str) -> None:
    assert local_path(location) == Path("/data/x")


@pytest.mark.parametrize("location", ["s3a://bucket/x", "hdfs://host/x"])
def test_another_file_system_has_no_local_path(location: str) -> None:
    assert local_path(location) is None


def test_a_uri_is_absolute_and_keeps_spaces() -> None:
    assert file_uri("/data/a b") == "file:///data/a b"
    assert file_uri(Path("x")) == f"file://{Path.cwd()}/x"
