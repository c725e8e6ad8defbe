"""The local services: up, status, down, and their failures."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from tests.other_user import needs_root
from tests.support import Headwater
from tests.waiting import wait_until

from headwater.errors import (
    DatabaseUnavailableError,
    DiskFullError,
    HeadwaterError,
    PortTakenError,
    ServiceStartError,
    UnsupportedVersionError,
)
from headwater.kafka import create_topic, list_topics
from headwater.model.progress import no_progress
from headwater.service import ServiceState, ServiceStatus, down, postgres_program, status, up
from headwater.service.postgres import PostgresServer
from headwater.settings import Settings
from headwater.testing.fixtures import local_settings


def start(settings: Settings, *parts: str) -> list[ServiceState]:
    return list(up(parts, settings, no_progress))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Settings]:
    settings = local_settings(tmp_path / "home")
    yield settings
    down(settings, wipe=True)


@pytest.mark.kafka
def test_up_returns_when_the_broker_is_ready_and_is_idempotent(home: Settings) -> None:
    (first,) = start(home, "kafka")
    assert first.state is ServiceStatus.RUNNING
    create_topic("kept", 1, home.kafka)
    (second,) = start(home, "kafka")
    assert second.pid == first.pid
    assert [topic.name for topic in list_topics(home.kafka)] == ["kept"]


@pytest.mark.kafka
def test_topics_survive_down_and_up_and_are_deleted_by_wipe(home: Settings) -> None:
    start(home, "kafka")
    create_topic("kept", 1, home.kafka)
    assert down(home) == ["kafka"]
    assert status(home)[0].state is ServiceStatus.STOPPED
    start(home, "kafka")
    assert [topic.name for topic in list_topics(home.kafka)] == ["kept"]
    down(home, wipe=True)
    assert not home.home_dir.exists()
    start(home, "kafka")
    assert list_topics(home.kafka) == []


@pytest.mark.kafka
def test_a_killed_broker_is_reported_as_stopped_and_started_again(home: Settings) -> None:
    (first,) = start(home, "kafka")
    assert first.pid is not None
    psutil.Process(first.pid).kill()
    psutil.wait_procs([psutil.Process(first.pid)] if psutil.pid_exists(first.pid) else [], 10)
    assert status(home)[0].state is ServiceStatus.STOPPED
    (again,) = start(home, "kafka")
    assert again.state is ServiceStatus.RUNNING
    assert again.pid != first.pid


def test_postgres_accepts_connections_only_with_the_password(home: Settings) -> None:
    state, _ = start(home, "catalog")
    url = PostgresServer(home).url
    with psycopg.connect(url) as connection:
        row = connection.execute("select current_database(), current_user").fetchone()
    assert row == ("headwater", "headwater")
    assert PostgresServer(home).url.split(":")[2].split("@")[0] not in state.address
    wrong = f"postgresql://headwater:wrong@127.0.0.1:{home.postgres.port}/headwater"
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)


@needs_root
def test_root_runs_postgres_from_a_checkout_that_only_root_may_enter(
    home: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = postgres_program.program("postgres").parents[2]
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    for folder in (wheel, wheel.with_name(f"{wheel.name}.libs")):
        shutil.copytree(folder, private / folder.name, symlinks=True)
    binaries = private / wheel.name / "pginstall18" / "bin"
    copies = Path(tempfile.mkdtemp(dir="/tmp"))
    copies.chmod(0o755)
    monkeypatch.setattr(postgres_program, "program", lambda name: binaries / name)
    monkeypatch.setattr(postgres_program, "_COPIES", copies)
    try:
        state = PostgresServer(home).start()
        assert state.state is ServiceStatus.RUNNING
        assert psutil.Process(state.pid).exe().startswith(str(copies))
    finally:
        down(home)
        shutil.rmtree(copies)


def test_a_stale_pid_file_with_a_reused_pid_does_not_prevent_the_start(home: Settings) -> None:
    state, _ = start(home, "catalog")
    assert state.pid is not None
    data = home.home_dir / "postgres" / "data"
    process = psutil.Process(state.pid)
    process.kill()
    psutil.wait_procs([process], timeout=10)
    lines = (data / "postmaster.pid").read_text().splitlines()
    # The pid of the dead server now belongs to this test process.
    (data / "postmaster.pid").write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    again, _ = start(home, "catalog")
    assert again.state is ServiceStatus.RUNNING
    assert psutil.pid_exists(os.getpid())


def test_a_taken_port_is_refused_with_its_owner_and_the_setting(home: Settings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", home.kafka.port))
        taken.listen()
        with pytest.raises(PortTakenError) as error:
            start(home, "kafka")
        assert str(home.kafka.port) in error.value.message
        assert f"process {os.getpid()}" in error.value.message
        assert "HEADWATER_KAFKA__PORT" in (error.value.hint or "")


def test_data_of_a_newer_kafka_is_refused_and_kept(home: Settings) -> None:
    folder = home.home_dir / "kafka"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "meta.properties").write_text("version=1\n")
    (folder / "VERSION").write_text("99.0.0")
    with pytest.raises(UnsupportedVersionError, match=r"99\.0\.0"):
        start(home, "kafka")
    assert (folder / "data" / "meta.properties").exists()


def test_data_of_another_postgres_is_refused_and_kept(home: Settings) -> None:
    data = home.home_dir / "postgres" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("12\n")
    with pytest.raises(UnsupportedVersionError, match="PostgreSQL 12"):
        start(home, "catalog")
    assert (data / "PG_VERSION").read_text() == "12\n"


def test_a_full_disk_is_reported_before_anything_is_started(home: Settings) -> None:
    services = home.services.model_copy(update={"min_free_mb": 10**9})
    with pytest.raises(DiskFullError) as error:
        start(home.model_copy(update={"services": services}), "kafka")
    assert "HEADWATER_SERVICES__MIN_FREE_MB" in (error.value.hint or "")
    assert not (home.home_dir / "kafka").exists()


@pytest.mark.kafka
def test_the_error_of_a_broker_that_can_not_start_contains_the_end_of_its_log(
    home: Settings,
) -> None:
    start(home, "kafka")
    down(home)
    (home.home_dir / "kafka" / "data" / "meta.properties").write_text("version=1\nnode.id=7\n")
    with pytest.raises(ServiceStartError) as error:
        start(home, "kafka")
    assert "meta.properties" in error.value.message


@pytest.mark.kafka
def test_down_stops_only_the_services_of_its_home(
    home: Settings, broker: Settings, tmp_path: Path
) -> None:
    other = status(broker)[0]
    start(home, "kafka")
    assert down(home) == ["kafka"]
    assert other.pid is not None
    assert psutil.Process(other.pid).is_running()
    assert status(broker)[0].state is ServiceStatus.RUNNING


@pytest.mark.kafka
def test_an_external_broker_is_used_and_never_stopped(broker: Settings, tmp_path: Path) -> None:
    kafka = broker.kafka.model_copy(update={"bootstrap_servers": broker.bootstrap_servers})
    external = local_settings(tmp_path).model_copy(update={"kafka": kafka})
    (state,) = start(external, "kafka")
    assert state.state is ServiceStatus.EXTERNAL
    assert down(external, wipe=True) == []
    assert status(broker)[0].state is ServiceStatus.RUNNING


def test_an_external_database_is_checked_and_its_password_is_not_shown(
    home: Settings, headwater: Headwater
) -> None:
    start(home, "catalog")
    url = PostgresServer(home).url
    password = url.split(":")[2].split("@")[0]
    used = headwater("up", "catalog", "--json", settings=home, HEADWATER_CATALOG__DATABASE_URL=url)
    assert used.returncode == 0, used.stderr
    assert [each["state"] for each in json.loads(used.stdout)] == ["external", "running"]
    closed = url.replace(f":{home.postgres.port}/", ":1/")
    refused = headwater("up", "catalog", HEADWATER_CATALOG__DATABASE_URL=closed)
    assert refused.returncode == DatabaseUnavailableError.exit_code
    invalid = headwater("up", "catalog", HEADWATER_CATALOG__DATABASE_URL=f"x{password}://")
    assert invalid.returncode == 2
    for output in (used, refused, invalid):
        assert password not in output.stdout + output.stderr


def wait_until_suspended(process: psutil.Process) -> None:
    """The signal stops the threads one by one: for a moment a suspended broker still responds."""

    def is_stopped(thread: int) -> bool:
        try:
            return bool(psutil.Process(thread).status() == psutil.STATUS_STOPPED)
        except psutil.NoSuchProcess:
            return True

    wait_until(
        lambda: all(is_stopped(each.id) for each in process.threads()),
        seconds=10,
        what="all threads to stop",
    )


@pytest.mark.kafka
def test_a_suspended_broker_is_reported_as_silent_in_time(home: Settings) -> None:
    (state,) = start(home, "kafka")
    assert state.pid is not None
    process = psutil.Process(state.pid)
    process.suspend()
    wait_until_suspended(process)
    try:
        began = time.monotonic()
        assert status(home)[0].state is ServiceStatus.SILENT
        assert time.monotonic() - began < 15
    finally:
        process.resume()
    assert status(home)[0].state is ServiceStatus.RUNNING


def test_wipe_keeps_files_of_the_user(home: Settings) -> None:
    (home.home_dir / "logs").mkdir(parents=True)
    (home.home_dir / "my-notes.txt").write_text("mine")
    down(home, wipe=True)
    assert [path.name for path in home.home_dir.iterdir()] == ["my-notes.txt"]


def test_an_unknown_service_is_refused_with_the_known_ones(home: Settings) -> None:
    with pytest.raises(HeadwaterError) as error:
        start(home, "kafak")
    assert "kafka, catalog" in (error.value.hint or "")
