"""Checks before a local service is started: disk space and free ports."""

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
from headwater.service.ownership import is_own, is_server_user
from headwater.settings import Settings

_MIB = 1024 * 1024
# The home on the command line of each service.
_HOME = re.compile(r"(?:-D)?headwater\.(?:home|catalog)=(.+)")


def check_free_space(folder: Path, settings: Settings) -> None:
    """Refuse to start if the disk is almost full: services corrupt their logs on a full disk.

    Raises:
        DiskFullError: names the folder, the free space and the setting.
    """
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free // _MIB
    required = settings.services.min_free_mb
    if free < required:
        raise DiskFullError(
            f"only {free} MiB are free at {existing}, {required} MiB are required",
            hint="free some space, choose another HEADWATER_HOME, or lower "
            "HEADWATER_SERVICES__MIN_FREE_MB",
            free_mb=free,
        )


def check_port_free(port: int, setting: str) -> None:
    """Refuse a port on which another process listens.

    Raises:
        PortTakenError: names the process, if this user may see it, and the setting.
        InputError: this user may not listen on it.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a connection in TIME_WAIT does not make the port unavailable.
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
                hint=f"{owner.hint}, or choose another port with {setting}",
                port=port,
            ) from None


class _Owner(NamedTuple):
    """The process that listens on a port."""

    text: str
    # Set for a service that was started from another home.
    home: str | None = None

    @property
    def hint(self) -> str:
        if self.home is None:
            return "stop it"
        home = f"HEADWATER_HOME={shlex.quote(self.home)}"
        return f"it belongs to another home: set `{home}` to use it, or `{home} headwater down`"


def _owner_of(port: int) -> _Owner:
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return _Owner("a process of another user")
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
            return _describe(connection.pid)
    return _Owner("a process that is not visible to this user")


def _describe(pid: int | None) -> _Owner:
    if pid is None:  # psutil.Process(None) is this process
        return _Owner("a process of another user")
    try:
        process = psutil.Process(pid)
        arguments = process.cmdline()
        command = " ".join(arguments)
        shown = command if len(command) <= 80 else command[:77] + "..."
        text = f"process {process.pid} of {process.username()} ({shown or process.name()})"
        known = is_own(process) or is_server_user(process)
    except psutil.Error:
        return _Owner("a process of another user")
    # Any user can start a process with these arguments.
    homes = (_HOME.fullmatch(argument) for argument in arguments if known)
    return _Owner(text, next((found[1] for found in homes if found), None))
