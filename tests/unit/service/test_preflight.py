"""Checks before a service is started: free ports and disk space."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from headwater.errors import DiskFullError, InputError, PortTakenError
from headwater.service.preflight import check_free_space, check_port_free
from headwater.settings import Settings, load
from headwater.testing import free_port

SETTING = "HEADWATER_KAFKA__PORT"
LISTEN_AND_WAIT = (
    "import socket, sys\n"
    "listener = socket.create_server(('127.0.0.1', 0))\n"
    "print(listener.getsockname()[1], flush=True)\n"
    "sys.stdin.read()\n"
)


def refusal(port: int) -> PortTakenError:
    with pytest.raises(PortTakenError) as caught:
        check_port_free(port, SETTING)
    return caught.value


def settings(min_free_mb: int) -> Settings:
    return load(services={"min_free_mb": min_free_mb})


def test_a_free_port_is_accepted() -> None:
    check_port_free(free_port(), SETTING)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_taken_port_names_its_owner_and_the_setting(host: str) -> None:
    with socket.create_server((host, 0)) as listener:
        port = listener.getsockname()[1]
        error = refusal(port)
    assert f"port {port} is taken by process {os.getpid()} of " in error.message
    assert psutil.Process().username() in error.message
    assert SETTING in (error.hint or "")
    assert error.attributes == {"port": port}


def test_the_hint_for_a_port_of_another_homes_service_shows_how_to_use_and_stop_it() -> None:
    command = [sys.executable, "-c", LISTEN_AND_WAIT, "-Dheadwater.home=/data/my lake/.headwater"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        hint = refusal(int(child.stdout.readline())).hint or ""
        child.communicate()
    assert "set `HEADWATER_HOME='/data/my lake/.headwater'` to use it" in hint
    assert "`HEADWATER_HOME='/data/my lake/.headwater' headwater down`" in hint
    assert SETTING in hint


def test_a_taken_port_names_the_process_with_its_command_line() -> None:
    command = [sys.executable, "-c", LISTEN_AND_WAIT, "x" * 200]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        message = refusal(int(child.stdout.readline())).message
        child.communicate()
    assert f"process {child.pid} of " in message
    assert sys.executable[:70] in message
    assert message.endswith("...)"), "a long command line is truncated"


def test_the_port_is_free_again_after_the_check() -> None:
    port = free_port()
    check_port_free(port, SETTING)
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_a_connection_in_time_wait_does_not_take_the_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        server, _ = listener.accept()
        server.close()  # the side that closes first stays in TIME_WAIT
        assert client.recv(1) == b""
        client.close()
    check_port_free(port, SETTING)


def test_an_invisible_owner_is_not_mistaken_for_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What psutil returns for a process of another user; tests may run as root, which sees all.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        hidden = SimpleNamespace(
            status=psutil.CONN_LISTEN, laddr=SimpleNamespace(port=port), pid=None
        )
        monkeypatch.setattr(psutil, "net_connections", lambda kind: [hidden])
        message = refusal(port).message
    assert message == f"port {port} is taken by a process of another user"


def test_a_system_that_does_not_list_connections_causes_no_second_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(kind: str) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", refuse)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        message = refusal(listener.getsockname()[1]).message
    assert message.endswith("is taken by a process of another user")


def test_a_port_that_this_user_may_not_use_is_not_reported_as_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As for port 80 without privileges; tests may run as root, which may use all ports.
    def refuse(self: socket.socket, address: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(InputError, match="port 80 can't be used: Permission denied") as caught:
        check_port_free(80, SETTING)
    assert not isinstance(caught.value, PortTakenError)
    assert SETTING in (caught.value.hint or "")


def test_too_little_space_names_the_folder_the_numbers_and_the_settings(tmp_path: Path) -> None:
    with pytest.raises(DiskFullError) as caught:
        check_free_space(tmp_path, settings(10**12))
    error = caught.value
    free = error.attributes["free_mb"]
    assert error.message == f"only {free} MiB are free at {tmp_path}, {10**12} MiB are required"
    assert "HEADWATER_SERVICES__MIN_FREE_MB" in (error.hint or "")
    assert "HEADWATER_HOME" in (error.hint or "")


def test_for_a_missing_folder_the_space_of_its_parent_counts(tmp_path: Path) -> None:
    with pytest.raises(DiskFullError, match=f"free at {tmp_path},"):
        check_free_space(tmp_path / "not" / "yet", settings(10**12))
    assert list(tmp_path.iterdir()) == []


def test_enough_space_is_accepted(tmp_path: Path) -> None:
    check_free_space(tmp_path / "not" / "yet", settings(0))
