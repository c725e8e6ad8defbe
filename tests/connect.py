"""A real server of Spark Connect, and clients in separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.submitted import submit
from tests.waiting import wait_until

from headwater.settings import Settings
from headwater.testing.ports import free_port

JOB = Path(__file__).with_name("connect_job.py")
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
APPLICATION = "connect_server"
START_SECONDS = 150.0
STOP_SECONDS = 30.0


@dataclass(frozen=True)
class ConnectServer:
    """A server that runs, and its log."""

    remote: str
    log: Path

    def run(self, *arguments: str, seconds: float = 240, **variables: str) -> str:
        """Run a client, a file or `-c` with a program, to its end; returns its output.

        It has no settings of the test but `variables`.
        """
        done = subprocess.run(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
            cwd=self.log.parent,
            env={"PATH": os.environ["PATH"], "HOME": str(self.log.parent), **variables},
        )
        assert done.returncode == 0, f"{done.stdout}\n{self.log.read_text()[-5000:]}"
        return done.stdout


@contextmanager
def connect_server(
    settings: Settings,
    folder: Path,
    *,
    master: str = "local[2]",
    configuration: Mapping[str, str] | None = None,
    connectors: tuple[str, ...] = ("kafka",),
) -> Iterator[ConnectServer]:
    """A server with this configuration on a free port."""
    log, port = folder / "server.log", free_port()
    address = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    server = submit(
        settings,
        log,
        ["--name", APPLICATION, "--class", SERVER],
        master=master,
        configuration={**address, **(configuration or {})},
        connectors=connectors,
    )
    try:
        wait_until(
            lambda: "Spark Connect server started at" in log.read_text() or server.poll(),
            START_SECONDS,
            "the server",
            log.read_text,
        )
        assert server.poll() is None, log.read_text()
        yield ConnectServer(f"sc://127.0.0.1:{port}", log)
    finally:
        server.terminate()
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(STOP_SECONDS)
