"""Processes of another user of the machine that pass for services of a home. Needs root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from tests.waiting import wait_until

OTHER_USER = "nobody"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")

# Prints `ready`, and then what clients send. Asks for a password in clear text, in PostgreSQL's
# protocol: `R`, the length and 3.
FAKE_POSTGRES = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
while True:
    client, _ = listener.accept()
    client.settimeout(2)
    try:
        received = client.recv(4096)
        if received[4:8] == b"\\x04\\xd2\\x16\\x2f":  # a request for TLS: no
            client.sendall(b"N")
            received = client.recv(4096)
        print("startup", received, flush=True)
        client.sendall(b"R\\0\\0\\0\\x08\\0\\0\\0\\x03")
        print("answer", client.recv(4096), flush=True)
    except OSError as error:
        print("error", error, flush=True)
    client.close()
"""
SLEEP = "print('ready', flush=True); import time; time.sleep(60)"

StartAsOtherUser = Callable[..., "subprocess.Popen[str]"]


@contextmanager
def other_user_processes() -> Iterator[StartAsOtherUser]:
    """Starts Python processes as another user, with any file name for the executable."""
    started: list[subprocess.Popen[str]] = []
    folder = Path(tempfile.mkdtemp())
    account = pwd.getpwnam(OTHER_USER)
    # After the imports: the other user may not be able to read Python's own files.
    become = (
        "import os, socket, sys, time; os.setgroups([]); "
        f"os.setresgid(*[{account.pw_gid}] * 3); os.setresuid(*[{account.pw_uid}] * 3)\n"
    )

    def start(
        executable: str, code: str, *arguments: str, stdout: int = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        program = folder / executable
        if not program.exists():
            shutil.copy(Path(sys.executable).resolve(), program)
        process = subprocess.Popen(
            [str(program), "-c", become + code, *arguments],
            stdout=stdout,
            text=True,
            env={"PYTHONHOME": sys.base_prefix},
            cwd="/",
        )
        started.append(process)
        running = psutil.Process(process.pid)
        wait_until(lambda: running.uids().real == account.pw_uid, 10, "the other user")
        if process.stdout is not None:
            assert process.stdout.readline() == "ready\n"
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.wait(10)
            if process.stdout is not None:
                process.stdout.close()
        shutil.rmtree(folder)


def run_as_other_user(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    account = pwd.getpwnam(OTHER_USER)
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=[],
        cwd="/",
    )
