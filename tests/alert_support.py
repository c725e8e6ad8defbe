"""Receivers of alerts for tests: a real web server and a real mail server on loopback."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.catalog_support import Catalog

from headwater.settings import Settings

LOOPBACK = ("127.0.0.1/32",)


class Hook:
    """A web server that stores the bodies it receives; `answer` is the status of its responses."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.got: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.times: list[float] = []
        self.answer = 200
        self.location: str | None = None
        self.delay = 0.0
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                # Read before the path is visible: a test that sees the path may change the answer.
                answer = hook.answer
                hook.paths.append(self.path)
                time.sleep(hook.delay)
                if answer == 200:
                    hook.got.append(json.loads(body))
                    hook.times.append(time.monotonic())
                self.send_response(answer)
                if hook.location is not None:
                    self.send_header("Location", hook.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        self._server = Server((host, 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def hook(host: str = "127.0.0.1") -> Iterator[Hook]:
    server = Hook(host)
    try:
        yield server
    finally:
        server.close()


class _Mail(socketserver.StreamRequestHandler):
    """The part of SMTP that a client needs to send a mail."""

    def handle(self) -> None:
        self._reply("220 tests")
        for line in iter(self.rfile.readline, b""):
            word = line.strip().upper()
            if word.startswith(b"EHLO"):
                self._reply("250-tests\r\n250 AUTH PLAIN")
                continue
            if word.startswith(b"AUTH"):
                self._reply("235 welcome")
                continue
            if word.startswith(b"DATA"):
                self._reply("354 go on")
                mail = b"".join(iter(self.rfile.readline, b".\r\n"))
                self.server.mails.append(mail.decode())  # type: ignore[attr-defined]
            if word.startswith(b"QUIT"):
                self._reply("221 bye")
                return
            self._reply("250 ok")

    def _reply(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


@contextmanager
def mail_server() -> Iterator[tuple[int, list[str]]]:
    """The port and the received mails."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Mail) as server:
        server.daemon_threads = True
        server.mails = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1], server.mails  # type: ignore[attr-defined]
        server.shutdown()


def alerting(settings: Settings, rules: Path, **alerts: Any) -> Settings:
    """The settings with a rules file; messages to loopback are allowed."""
    values = {"file": rules, "allow_private": LOOPBACK, "interval_seconds": 0.3, **alerts}
    # Create a new section, so that the values are validated.
    section = type(settings.alerts)(**values)
    return settings.model_copy(update={"alerts": section})


def write_rules(path: Path, *rules: str) -> Path:
    path.write_text("alerts:\n" + "".join(rules))
    return path


def rule(name: str, condition: str, channel: str = "hook", **more: str) -> str:
    """An alert in the format of the rules file."""
    lines = [f"  - name: {name}", f"    condition: {condition}", f"    notification: {channel}"]
    return "\n".join([*lines, *(f"    {key}: {value}" for key, value in more.items())]) + "\n"


def states(catalog: Catalog) -> dict[str, str]:
    """The state of each alert, by its name and subject."""
    return {
        " ".join(filter(None, (each["name"], each["subject"]))): each["state"]
        for each in catalog.get("/alerts")["alerts"]
    }


def evaluated(catalog: Catalog) -> float:
    """When all rules were last evaluated."""
    text = catalog.call("GET", f"{catalog.url}/metrics").text
    name = "headwater_alerts_evaluated_timestamp_seconds "
    (line,) = [each for each in text.splitlines() if each.startswith(name)]
    return float(line.removeprefix(name))
