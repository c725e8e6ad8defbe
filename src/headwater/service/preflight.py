"""What must be true before a local service is started: room on the disk, and a free port."""

from __future__ import annotations

import errno
import re
import shlex
import shutil
import socket
from pathlib import Path
from typing import NamedTuple

import psutil

from headwater.errors import DiskFullError, InputError, PortTakenError
from headwater.settings import Settings

_MIB = 1024 * 1024
# How each service carries its home on its command line.
_HOME = re.compile(r"(?:-D)?headwater\.(?:home|catalog)=(.+)")


def check_free_space(folder: Path, settings: Settings) -> None:
    """Refuse to start when the disk is nearly full: services damage their logs on a full one.

    Raises:
        DiskFullError: names the folder, what is free and the setting.
    """
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free // _MIB
    wanted = settings.services.min_free_mb
    if free < wanted:
        raise DiskFullError(
            f"only {free} MiB are free at {existing}, {wanted} MiB are asked for",
            hint="free some space, choose another HEADWATER_HOME, or lower "
            "HEADWATER_SERVICES__MIN_FREE_MB",
            free_mb=free,
        )


def check_port_free(port: int, setting: str) -> None:
    """Refuse a port on which somebody listens already.

    Raises:
        PortTakenError: names the owner, as far as this user may see it, and the setting.
        InputError: this user may not listen on it.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do, so that a connection in TIME_WAIT does not count as an owner.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise InputError(
                    f"port {port} can't be used: {error.strerror}",
                    hint=f"choose another port with {setting}",
                    port=port,
                ) from None
            owner = _owner_of(port)
            raise PortTakenError(
                f"port {port} is taken by {owner.text}",
                hint=f"{owner.what_to_do}, or choose another port with {setting}",
                port=port,
            ) from None


class _Owner(NamedTuple):
    """Who listens on a port."""

    text: str
    # Of a service that was started from another home.
    home: str | None = None

    @property
    def what_to_do(self) -> str:
        if self.home is None:
            return "stop it"
        return (
            f"it belongs to another folder's home: `HEADWATER_HOME={shlex.quote(self.home)}` uses "
            "it, and with `headwater down` stops it"
        )


def _owner_of(port: int) -> _Owner:
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return _Owner("a process of another user")
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
            return _describe(connection.pid)
    return _Owner("a process that can't be seen from here")


def _describe(pid: int | None) -> _Owner:
    if pid is None:  # psutil would take it as this very process
        return _Owner("a process of another user")
    try:
        process = psutil.Process(pid)
        arguments = process.cmdline()
        command = " ".join(arguments)
        shown = command if len(command) <= 80 else command[:77] + "..."
        text = f"process {process.pid} of {process.username()} ({shown or process.name()})"
    except psutil.Error:
        return _Owner("a process of another user")
    homes = (_HOME.fullmatch(argument) for argument in arguments)
    return _Owner(text, next((found[1] for found in homes if found), None))
