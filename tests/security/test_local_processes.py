"""Another user of the machine gets no password and no data, and loses no process."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from tests.other_user import (
    FAKE_POSTGRES,
    SLEEP,
    StartAsOtherUser,
    needs_root,
    other_user_processes,
    run_as_other_user,
)

from headwater.catalog.store import migrate
from headwater.errors import PortTakenError
from headwater.service import ServiceStatus, down, ownership, status, up
from headwater.service import postgres_roles as roles
from headwater.service.postgres import PostgresServer
from headwater.service.postgres_program import offline_command
from headwater.service.processes import run_to_end
from headwater.settings import Settings
from headwater.testing.fixtures import local_settings

PASSWORD = "the-secret-password"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Settings]:
    settings = local_settings(tmp_path / "home")
    yield settings
    down(settings, wipe=True)


@pytest.fixture
def start_as_other_user() -> Iterator[StartAsOtherUser]:
    with other_user_processes() as start:
        yield start


def output_of(process: subprocess.Popen[str]) -> str:
    process.kill()
    assert process.stdout is not None
    return process.stdout.read()


@needs_root
def test_another_users_postgres_is_neither_used_nor_stopped_and_gets_no_password(
    home: Settings, start_as_other_user: StartAsOtherUser
) -> None:
    folder = home.home_dir / "postgres"
    folder.mkdir(parents=True)
    (folder / "password").write_text(PASSWORD)
    port = str(home.postgres.port)
    marker = f"headwater.home={home.home_dir}"
    fake = start_as_other_user("postgres", FAKE_POSTGRES, port, "-c", marker)
    with pytest.raises(PortTakenError, match=f"process {fake.pid} of nobody"):
        list(up(["catalog"], home))
    assert status(home)[1].state is ServiceStatus.STOPPED
    assert down(home) == []
    assert fake.poll() is None
    received = output_of(fake)
    assert PASSWORD not in received


@needs_root
def test_down_does_not_stop_another_users_process_with_the_arguments_of_a_service(
    home: Settings, start_as_other_user: StartAsOtherUser
) -> None:
    home.home_dir.mkdir()
    processes = [
        start_as_other_user("java", SLEEP, f"-Dheadwater.home={home.home_dir}"),
        start_as_other_user("postgres", SLEEP, "-c", f"headwater.home={home.home_dir}"),
        start_as_other_user("python3", SLEEP, "--mark", f"headwater.catalog={home.home_dir}"),
    ]
    assert [each.state for each in status(home)] == [ServiceStatus.STOPPED] * 3
    assert down(home, wipe=True) == []
    assert [each.poll() for each in processes] == [None] * 3


@needs_root
def test_a_pid_file_that_names_another_users_process_stops_nothing(
    home: Settings, start_as_other_user: StartAsOtherUser
) -> None:
    process = start_as_other_user("python3", SLEEP)
    file = home.home_dir / "run" / f"demo-{process.pid}.json"
    file.parent.mkdir(parents=True)
    started = psutil.Process(process.pid).create_time()
    file.write_text(f'{{"name": "demo", "pid": {process.pid}, "started": {started}}}')
    assert down(home) == []
    assert process.poll() is None


@needs_root
def test_a_former_postgres_of_root_is_recognised_by_its_log_that_only_root_can_write(
    home: Settings, start_as_other_user: StartAsOtherUser, tmp_path: Path
) -> None:
    log = tmp_path / "postgres.log"
    identity = ownership.Identity("headwater.home=x", "-c", "postgres", log, switches_user=True)
    arguments = ("postgres", SLEEP, "-c", identity.marker)
    with log.open("a") as file:
        former = start_as_other_user(*arguments, stdout=file.fileno())
        found = ownership.find_process(identity)
        assert found is not None
        assert found.pid == former.pid
    former.kill()
    former.wait(10)
    log.chmod(0o644)
    with log.open() as file:  # to read: every user can
        start_as_other_user(*arguments, stdout=file.fileno())
        assert ownership.find_process(identity) is None


@pytest.mark.parametrize("method", ["password", "md5"])
def test_the_driver_sends_no_password_to_a_server_that_asks_for_clear_text_or_md5(
    method: str, home: Settings
) -> None:
    server = PostgresServer(home)
    (home.home_dir / "postgres").mkdir(parents=True)
    (home.home_dir / "postgres" / "password").write_text(PASSWORD)
    request = {"password": b"R\0\0\0\x08\0\0\0\x03", "md5": b"R\0\0\0\x0c\0\0\0\x05salt"}[method]
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", home.postgres.port)) as listener:

        def answer() -> None:
            client, _ = listener.accept()
            client.settimeout(10)
            first = client.recv(4096)
            if first[4:8] == b"\x04\xd2\x16\x2f":
                client.sendall(b"N")
                first = client.recv(4096)
            client.sendall(request)
            received.extend([first, client.recv(4096)])
            client.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(psycopg.OperationalError, match="scram-sha-256"):
            psycopg.connect(server.url, connect_timeout=10)
        thread.join(20)
    assert b"user\0headwater" in received[0], "the client did not begin: the test proves nothing"
    assert received[1] == b""


def test_the_role_of_the_service_owns_its_database_and_has_no_other_rights(
    home: Settings,
) -> None:
    server = PostgresServer(home)
    server.start()
    with psycopg.connect(server.url, autocommit=True) as connection:
        rights = connection.execute(
            "SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls"
            " FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
        assert rights == (False, False, False, False, False)
        for statement in (
            "COPY (SELECT 1) TO PROGRAM 'cat'",
            "SELECT pg_read_file('/etc/passwd')",
            "ALTER SYSTEM SET archive_command = 'x'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())
    migrate(server.url)
    superuser = server.url.replace("//headwater:", "//postgres:")
    with pytest.raises(psycopg.OperationalError, match=r"pg_hba\.conf"):
        psycopg.connect(superuser)


@needs_root
def test_the_server_of_root_has_no_capabilities_and_an_own_user_id(home: Settings) -> None:
    server = PostgresServer(home)
    pid = server.start().pid
    assert pid is not None
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    state = dict(line.split(":\t", 1) for line in lines)
    assert {state[f"Cap{each}"].strip("0") for each in ("Prm", "Eff", "Bnd", "Amb")} == {""}
    assert state["NoNewPrivs"] == "1"
    assert ownership.is_server_user(psutil.Process(pid))
    data = home.home_dir / "postgres" / "data"
    for path in (data, f"/proc/{pid}/cwd/"):
        assert "Permission denied" in run_as_other_user(["ls", str(path)]).stderr


def earlier_home(home: Settings) -> None:
    """As an earlier version made it: the role is the superuser."""
    folder = home.home_dir / "postgres"
    data = folder / "data"
    data.mkdir(parents=True, mode=0o700)
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o600)
    options = ("-U", roles.ROLE, "-A", "reject", "-E", "UTF8", "--locale=C")
    run_to_end(offline_command("initdb", data, *options), "initdb", timeout_seconds=60, cwd=data)
    statements = f"ALTER ROLE {roles.ROLE} PASSWORD '{PASSWORD}';\n"
    statements += f"CREATE DATABASE {roles.DATABASE};\n"
    single = [*offline_command("postgres", data, "--single"), "postgres"]
    run_to_end(single, "the database", timeout_seconds=60, stdin=statements, cwd=data)


def test_an_existing_home_keeps_its_data_and_loses_the_superuser(home: Settings) -> None:
    server = PostgresServer(home)
    earlier_home(home)
    # Started once as before: the role is the superuser, and owns the tables.
    server._roles_file.write_text("1")
    server.start()
    with psycopg.connect(server.url) as connection:
        assert connection.execute("SHOW is_superuser").fetchone() == ("on",)
        connection.execute("CREATE TABLE kept (id bigint GENERATED ALWAYS AS IDENTITY, x text)")
        connection.execute("INSERT INTO kept (x) VALUES ('a row')")
    migrate(server.url)
    server._roles_file.unlink()
    first = server.state().pid
    second = server.start().pid
    assert second != first, "a running server of an earlier version is restarted"
    with psycopg.connect(server.url) as connection:
        assert connection.execute("SHOW is_superuser").fetchone() == ("off",)
        assert connection.execute("SELECT x FROM kept").fetchall() == [("a row",)]
        connection.execute("INSERT INTO kept (x) VALUES ('another')")
        owners = connection.execute(
            "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall()
        assert owners == [(roles.ROLE,)]
        connection.execute("DROP FUNCTION lineage_walk")
        connection.rollback()
    migrate(server.url)
    assert server.start().pid == second
