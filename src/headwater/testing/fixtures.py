"""A pytest plugin: one real broker and one Spark session per test run, topics per test.

pytest_plugins = ["headwater.testing.fixtures"]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.service import down, up
from headwater.settings import Settings, load
from headwater.settings.kafka import PORT_STEP
from headwater.testing.ports import free_port, free_ports_apart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TopicMaker = Callable[..., str]


@pytest.fixture(scope="session")
def headwater_settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings with a separate home and free ports."""
    return local_settings(tmp_path_factory.mktemp("headwater"))


@pytest.fixture(scope="session")
def broker(headwater_settings: Settings) -> Iterator[Settings]:
    """A real Kafka broker; yields the settings to connect to it."""
    for _ in up(["kafka"], headwater_settings):
        pass
    yield headwater_settings
    down(headwater_settings, wipe=True)


@pytest.fixture(scope="session")
def spark(headwater_settings: Settings) -> Iterator[SparkSession]:
    """A real Spark session with all connectors that this Spark has."""
    from headwater.jvm.installed import installed_line
    from headwater.jvm.versions import connectors_of
    from headwater.spark.configuration import ROW_LINEAGE
    from headwater.spark.session import create_session

    warehouse = headwater_settings.home_dir / "warehouse"
    session = create_session(
        "headwater-tests",
        headwater_settings,
        connectors=connectors_of(installed_line(headwater_settings)),
        additional_configs={
            # More than there are cores: concurrent queries mostly wait.
            "spark.master": "local[10]",
            "spark.sql.shuffle.partitions": "2",
            # Otherwise rows of a list are read by ten Python workers, a second each to start.
            "spark.default.parallelism": "2",
            "spark.sql.warehouse.dir": str(warehouse),
            # Row lineage of plain jobs, for tests that set `spark.headwater.lineage.enabled`.
            "spark.sql.extensions": ROW_LINEAGE,
            "spark.headwater.lineage.enabled": "false",
        },
    )
    yield session
    session.stop()


@pytest.fixture
def make_topic(broker: Settings, request: pytest.FixtureRequest) -> TopicMaker:
    """Creates topics with unique names: `make_topic("visits", partitions=2)`."""
    from headwater.kafka import create_topic

    test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)[:150]

    def make(name: str = "topic", *, partitions: int = 2) -> str:
        topic = f"{test}.{name}"
        create_topic(topic, partitions, broker.kafka)
        return topic

    return make


def local_settings(home: Path, *, brokers: int = 1) -> Settings:
    """Settings for services that a test starts: a folder and free ports.

    Args:
        brokers: of a Kafka cluster, of which each one may be killed and started again.
    """
    port, controller_port = free_port(), free_port()
    if brokers > 1:
        port = free_ports_apart(2 * brokers, PORT_STEP // 2)
        controller_port = port + PORT_STEP // 2
    return load(
        home=home,
        # None overrides services of the user in the environment.
        kafka={
            "bootstrap_servers": None,
            "brokers": brokers,
            "port": port,
            "controller_port": controller_port,
        },
        postgres={"port": free_port()},
        catalog={
            "database_url": None,
            "host": "127.0.0.1",
            "port": free_port(),
            "page_port": free_port(),
        },
    )
