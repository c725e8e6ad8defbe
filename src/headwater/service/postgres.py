"""The local PostgreSQL: from the wheel, on a TCP port of loopback."""

from __future__ import annotations

import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psutil

from headwater.errors import ServiceStartError, UnsupportedVersionError
from headwater.model.local_files import state_folder
from headwater.model.progress import Progress, no_progress
from headwater.service import postgres_roles as roles
from headwater.service.managed import LocalService, ServiceState, ServiceStatus
from headwater.service.ownership import Identity
from headwater.service.postgres_program import (
    give_to_server,
    offline_command,
    program,
    server_command,
)
from headwater.service.preflight import check_free_space, check_port_free
from headwater.service.processes import run_to_end, start_detached, stop_process
from headwater.settings import Settings

# The state of the roles: a home with another one is migrated.
_ROLES_VERSION = "1"


class PostgresServer(LocalService):
    """The PostgreSQL of one Headwater home."""

    name = "postgres"

    def __init__(self, settings: Settings) -> None:
        # A custom parameter, which PostgreSQL accepts: the path of the data alone may also be an
        # argument of `du` or of a backup, which `down` must not stop.
        super().__init__(settings, f"headwater.home={settings.home_dir}", settings.postgres.port)
        self._folder = settings.home_dir / "postgres"
        self._data = self._folder / "data"

    @property
    def url(self) -> str:
        """URL with the password: not for logs.

        With `require_auth` the driver proves that it knows the password and never sends it, so
        that another process on the port can't learn it. The server has to prove the same.
        """
        return (
            f"postgresql://{roles.ROLE}:{quote(self._password())}@127.0.0.1:{self._port}"
            f"/{roles.DATABASE}?require_auth=scram-sha-256"
        )

    @property
    def _identity(self) -> Identity:
        return Identity(self._marker, "-c", "postgres", self._log, switches_user=True)

    def start(self, progress: Progress = no_progress) -> ServiceState:
        settings = self._settings
        process = self.process()
        if process is not None and not self._is_migrated():
            self._end(process)
            process = None
        if process is None:
            check_free_space(self._folder, settings)
            check_port_free(self._port, "HEADWATER_POSTGRES__PORT")
            self._initialise()
            self._check_data_version()
            self._remove_stale_pid()
            self._migrate()
            self._write_hba(self._data)
            give_to_server(self._data)
            options = ["-p", str(self._port), "-h", "127.0.0.1", "-k", "", "-c", self._marker]
            command = server_command(self._data, *options)
            process = start_detached(command, self._log, cwd=self._data)
        self._wait_until_ready(process, self._log)
        return self._state(ServiceStatus.RUNNING, process.pid)

    def _end(self, process: psutil.Process) -> None:
        # SIGINT is PostgreSQL's fast shutdown: it terminates sessions instead of waiting for them.
        process.send_signal(2)
        psutil.wait_procs([process], timeout=self._settings.services.stop_timeout_seconds)
        stop_process(process, timeout_seconds=1)

    @property
    def _address(self) -> str:
        return f"postgresql://{roles.ROLE}@127.0.0.1:{self._port}/{roles.DATABASE}"

    def _is_ready(self) -> bool:
        port = str(self._port)
        command = [str(program("pg_isready")), "-q", "-h", "127.0.0.1", "-p", port, "-t", "2"]
        try:
            run_to_end(command, "pg_isready", timeout_seconds=10)
        except ServiceStartError:
            return False
        return True

    def _initialise(self) -> None:
        if self._data.exists():
            return
        state_folder(self._settings.home_dir, self._folder.name)
        # Created next to the final folder and renamed at the end: a start that is killed leaves no
        # incomplete data directory.
        unfinished = self._folder / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        password = self._folder / "password"
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(24))
        options = ["-U", roles.SUPERUSER, "-A", "reject", "-E", "UTF8", "--locale=C"]
        run_to_end(
            offline_command("initdb", unfinished, *options),
            "initdb",
            timeout_seconds=self._settings.services.start_timeout_seconds,
            cwd=unfinished,
        )
        self._run_statements(unfinished, "postgres", roles.new_database(self._password()))
        unfinished.rename(self._data)
        self._roles_file.write_text(_ROLES_VERSION)

    def _migrate(self) -> None:
        """Take the superuser's rights from the role of a home of an earlier version."""
        if self._is_migrated():
            return
        statements = roles.existing_database(self._password())
        self._run_statements(self._data, roles.DATABASE, statements)
        self._roles_file.write_text(_ROLES_VERSION)

    def _run_statements(self, data: Path, database: str, statements: str) -> None:
        what = "creating the roles of the database"
        output = run_to_end(
            [*offline_command("postgres", data, "--single"), database],
            what,
            timeout_seconds=self._settings.services.start_timeout_seconds,
            stdin=statements,
            cwd=data,
        )
        # Errors of statements do not end the single-user mode.
        errors = [line for line in output.splitlines() if "ERROR:" in line]
        if errors:
            raise ServiceStartError(f"{what} failed:\n" + "\n".join(errors))

    def _write_hba(self, data: Path) -> None:
        # Written, not replaced, so that the file keeps its owner.
        (data / "pg_hba.conf").write_text(roles.HBA)

    @property
    def _roles_file(self) -> Path:
        return self._folder / "roles"

    def _is_migrated(self) -> bool:
        return self._roles_file.exists() and self._roles_file.read_text() == _ROLES_VERSION

    def _password(self) -> str:
        return (self._folder / "password").read_text()

    def _check_data_version(self) -> None:
        version = (self._data / "PG_VERSION").read_text().strip()
        installed = program("postgres").parent.parent.name.removeprefix("pginstall")
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
