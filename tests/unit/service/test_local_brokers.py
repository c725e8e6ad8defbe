"""The local brokers of a home: how many there are, and where they listen."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.service.brokers import LocalKafka
from headwater.settings import Settings, load


def settings_of(home: Path, brokers: int | None) -> Settings:
    kafka = {"bootstrap_servers": None, "brokers": brokers, "port": 20092}
    return load(home=home, kafka=kafka)


def test_three_brokers_have_three_addresses(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, 3)
    assert settings.bootstrap_servers == "localhost:20092,localhost:20102,localhost:20112"
    assert len(LocalKafka(settings).brokers) == 3


def test_a_home_keeps_its_number_of_brokers(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "BROKERS").write_text("3\n")
    assert len(LocalKafka(settings_of(tmp_path, None)).brokers) == 3


def test_another_number_of_brokers_is_refused(tmp_path: Path) -> None:
    # As a version of Headwater with one broker left it.
    (tmp_path / "kafka" / "data").mkdir(parents=True)
    kafka = LocalKafka(settings_of(tmp_path, 3))
    with pytest.raises(InputError, match="is the data of 1 brokers, not of 3"):
        kafka.start()
