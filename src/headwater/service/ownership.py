"""Which processes belong to a home: their user, executable and arguments are compared.

Every user can start a process with any arguments. A process is taken for a service of this home
only if its user can't be another one's: the own user or, for the PostgreSQL of root, a user id that
no account has.
"""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

# User ids without an account, for the PostgreSQL of root: only root can start such a process.
# No distribution and no part of systemd assigns ids of this range.
_SERVER_USER_IDS = range(60_900, 61_000)
# For root, PostgreSQL ran as this user before it had its own user id.
_FORMER_USER = "nobody"


@dataclass(frozen=True)
class Identity:
    """What identifies the process of a service.

    Attributes:
        marker: one complete argument, which contains the path of the home.
        before: the argument before the marker, or "".
        executable: the beginning of the executable's file name.
        log: standard output of the process.
        switches_user: root starts it as another user.
    """

    marker: str
    before: str
    executable: str
    log: Path
    switches_user: bool = False


def find_process(identity: Identity) -> psutil.Process | None:
    """The running process of this user that has this identity."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if (
                _has_marker(process.cmdline(), identity)
                and process.status() != psutil.STATUS_ZOMBIE
                and _executable(process).startswith(identity.executable)
                and (is_own(process) or (identity.switches_user and _is_of_root(process, identity)))
            ):
                return process
    return None


def is_own(process: psutil.Process) -> bool:
    """Whether this user started the process: a program with set-user-ID has several users."""
    return set(process.uids()) == {os.geteuid()}


def is_server_user(process: psutil.Process) -> bool:
    """Whether the process runs as the user of root's PostgreSQL."""
    (user, *others) = set(process.uids())
    return not others and user in _SERVER_USER_IDS and not _has_account(user)


def server_user_id(data: Path) -> int:
    """The user id of root's PostgreSQL: the owner of `data`, or an id that no account has."""
    if data.exists() and data.stat().st_uid in _SERVER_USER_IDS:
        return data.stat().st_uid
    return next(each for each in _SERVER_USER_IDS if not _has_account(each))


def listens(process: psutil.Process, port: int) -> bool:
    """Whether the process itself listens on the port; True if the system does not show it."""
    try:
        connections = process.net_connections("tcp")
    except psutil.AccessDenied:  # another user's process, for root without CAP_SYS_PTRACE
        return True
    except psutil.Error:
        return False
    return any(
        each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in connections
    )


def _has_marker(arguments: list[str], identity: Identity) -> bool:
    if identity.marker not in arguments[1:]:
        return False
    place = arguments.index(identity.marker, 1)
    return not identity.before or arguments[place - 1] == identity.before


def _executable(process: psutil.Process) -> str:
    with suppress(psutil.AccessDenied):
        # On macOS the file name of Python's executable is capitalised.
        return Path(process.exe()).name.lower() or str(process.name())
    return str(process.name())


def _is_of_root(process: psutil.Process, identity: Identity) -> bool:
    if os.geteuid() != 0:
        return False
    former = set(process.uids()) == {pwd.getpwnam(_FORMER_USER).pw_uid}
    return is_server_user(process) or (former and _writes_to(process, identity.log))


def _writes_to(process: psutil.Process, log: Path) -> bool:
    """Whether its standard output is this log, which only root can open for writing."""
    try:
        state = log.stat()
        same = os.path.samestat(Path(f"/proc/{process.pid}/fd/1").stat(), state)
        information = Path(f"/proc/{process.pid}/fdinfo/1").read_text()
    except OSError:
        return False
    flags = next(line for line in information.splitlines() if line.startswith("flags:"))
    writes = int(flags.split()[1], 8) & os.O_ACCMODE == os.O_WRONLY
    return same and writes and state.st_uid == 0 and state.st_mode & 0o022 == 0


def _has_account(user: int) -> bool:
    try:
        pwd.getpwuid(user)
    except KeyError:
        return False
    return True
