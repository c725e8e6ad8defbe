"""The lineage service on this machine: a process of its own, beside its PostgreSQL."""

from __future__ import annotations

import importlib.util
import json
import ssl
import sys
import urllib.error
import urllib.request
from typing import Any

from pydantic import SecretStr

from headwater.catalog.store import check_database
from headwater.errors import HeadwaterError, InputError, NotInstalledError
from headwater.model.progress import Progress, no_progress
from headwater.service.managed import LocalService, ServiceState, State, wait_until_it_answers
from headwater.service.postgres import PostgresServer
from headwater.service.preflight import check_free_space, check_port_free
from headwater.service.processes import find_process, start_detached
from headwater.settings import Settings, exported, rules_file

_NEEDED = (
    "apprise",
    "cel_expr_python",
    "fastapi",
    "httptools",
    "jwt",
    "orjson",
    "psycopg_pool",
    "uvicorn",
    "uvloop",
    "yaml",
)


def database_url(settings: Settings) -> str:
    """The user's own database, or the local one; with its password, not for logs.

    Raises:
        SettingError: the address can't be read.
        DatabaseUnavailableError: nobody answers there, or the login is refused.
        UnsupportedVersionError: the server is too old.
        InputError: there is neither.
    """
    if settings.catalog.database_url is not None:
        check_database(settings)
        return settings.catalog.database_url.get_secret_value()
    local = PostgresServer(settings)
    if local.state().state is State.STOPPED:
        raise InputError(
            "the local PostgreSQL does not run, and no database is set",
            hint="`headwater up catalog`, or set HEADWATER_CATALOG__DATABASE_URL",
        )
    return local.url


def check_installed() -> None:
    """Raises:
    MissingPartError: the service's packages are not there.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise NotInstalledError(
            f"the lineage service needs {missing[0]}, which is not installed",
            hint="pip install 'headwater[service]'",
        )


class CatalogService(LocalService):
    """The lineage service of one Headwater home."""

    name = "catalog"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, f"headwater.catalog={settings.home_dir}")

    def start(self, progress: Progress = no_progress) -> ServiceState:
        settings = self._settings
        process = find_process(self._marker)
        if process is None:
            check_installed()
            check_free_space(settings.home_dir, settings)
            check_port_free(settings.catalog.port, "HEADWATER_CATALOG__PORT")
            check_port_free(settings.catalog.page_port, "HEADWATER_CATALOG__PAGE_PORT")
            command = [sys.executable, "-m", "headwater", "serve", "--mark", self._marker]
            # By the environment: a password on the command line is everybody's to read.
            with exported(**self._environment()):
                process = start_detached(command, self._log)
        wait_until_it_answers(self.name, process, self._answers, self._log, settings)
        return self._state(State.RUNNING, process.pid)

    def wipe(self) -> None:
        """Its data lies in the database."""

    @property
    def _address(self) -> str:
        catalog = self._settings.catalog
        scheme = "https" if catalog.tls_certificate else "http"
        return f"{scheme}://{_reachable(catalog.host)}:{catalog.port}"

    def _answers(self) -> bool:
        try:
            return healthy(self._settings)
        except HeadwaterError:
            return False

    def _environment(self) -> dict[str, str]:
        """All settings of the service, wherever they came from."""
        section = self._settings.catalog.model_copy(
            update={"database_url": SecretStr(database_url(self._settings))}
        )
        found = {"HEADWATER_HOME": str(self._settings.home_dir)}
        for key in type(section).model_fields:
            value = getattr(section, key)
            if value is not None:
                found[f"HEADWATER_CATALOG__{key.upper()}"] = _text(value)
        found |= self._alerts()
        if self._settings.testing.fault_points:
            found["HEADWATER_TESTING__FAULT_POINTS"] = self._settings.testing.fault_points
        return found

    def _alerts(self) -> dict[str, str]:
        """The same for alerts; what is left at its default need not be told."""
        section = self._settings.alerts
        found = {
            f"HEADWATER_ALERTS__{key.upper()}": _text(getattr(section, key))
            for key in section.model_fields_set - {"channels"}
            if getattr(section, key) is not None
        }
        for name, address in section.channels.items():
            found[f"HEADWATER_ALERTS__CHANNELS__{name.upper()}"] = address.get_secret_value()
        file = rules_file(self._settings)
        if file is not None:
            found["HEADWATER_ALERTS__FILE"] = str(file)
        return found


def healthy(settings: Settings) -> bool:
    """Whether the service on this machine, and its database, answer."""
    catalog = settings.catalog
    scheme = "https" if catalog.tls_certificate else "http"
    context = None
    if scheme == "https":
        # Only whether it answers is asked, on this machine; the certificate has another name.
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    url = f"{scheme}://{_reachable(catalog.host)}:{catalog.port}/api/v1/health"
    try:
        with urllib.request.urlopen(url, timeout=3, context=context) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104


def _text(value: Any) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, tuple):
        return json.dumps(list(value))
    return str(value)
