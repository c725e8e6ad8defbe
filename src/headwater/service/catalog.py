"""The local lineage service: a separate process that uses PostgreSQL."""

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
from headwater.service.managed import LocalService, ServiceState, ServiceStatus
from headwater.service.ownership import Identity
from headwater.service.postgres import PostgresServer
from headwater.service.preflight import check_free_space, check_port_free
from headwater.service.processes import start_detached
from headwater.settings import Settings, exported, rules_file

_REQUIRED_MODULES = (
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
    """URL of the configured database or of the local one. Contains the password: not for logs.

    Raises:
        SettingError: the URL can't be parsed.
        DatabaseUnavailableError: the server does not respond or refuses the login.
        UnsupportedVersionError: the server is too old.
        InputError: no database is configured, and the local one is not running.
    """
    if settings.catalog.database_url is not None:
        check_database(settings)
        return settings.catalog.database_url.get_secret_value()
    local = PostgresServer(settings)
    if local.state().state is ServiceStatus.STOPPED:
        raise InputError(
            "the local PostgreSQL is not running, and no database is configured",
            hint="run `headwater up catalog`, or set HEADWATER_CATALOG__DATABASE_URL",
        )
    return local.url


def check_installed() -> None:
    """Raises:
    NotInstalledError: packages of the extra `service` are missing.
    """
    missing = [name for name in _REQUIRED_MODULES if importlib.util.find_spec(name) is None]
    if missing:
        raise NotInstalledError(
            f"the lineage service needs {missing[0]}, which is not installed",
            hint="pip install 'headwater[service]'",
        )


class CatalogServer(LocalService):
    """The lineage service of one Headwater home."""

    name = "catalog"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, f"headwater.catalog={settings.home_dir}", settings.catalog.port)

    @property
    def _identity(self) -> Identity:
        return Identity(self._marker, "--mark", "python", self._log)

    def start(self, progress: Progress = no_progress) -> ServiceState:
        settings = self._settings
        process = self.process()
        if process is None:
            check_installed()
            check_free_space(settings.home_dir, settings)
            check_port_free(settings.catalog.port, "HEADWATER_CATALOG__PORT")
            check_port_free(settings.catalog.page_port, "HEADWATER_CATALOG__PAGE_PORT")
            command = [sys.executable, "-m", "headwater", "serve", "--mark", self._marker]
            # Not on the command line, where other users could read the password.
            with exported(**self._environment()):
                process = start_detached(command, self._log)
        self._wait_until_ready(process, self._log)
        return self._state(ServiceStatus.RUNNING, process.pid)

    @property
    def _address(self) -> str:
        catalog = self._settings.catalog
        scheme = "https" if catalog.tls_certificate else "http"
        return f"{scheme}://{_reachable(catalog.host)}:{catalog.port}"

    def _is_ready(self) -> bool:
        try:
            return healthy(self._settings)
        except HeadwaterError:
            return False

    def _environment(self) -> dict[str, str]:
        """All settings of the service, from any source, as environment variables."""
        section = self._settings.catalog.model_copy(
            update={"database_url": SecretStr(database_url(self._settings))}
        )
        variables = {"HEADWATER_HOME": str(self._settings.home_dir)}
        for key in type(section).model_fields:
            value = getattr(section, key)
            if value is not None:
                variables[f"HEADWATER_CATALOG__{key.upper()}"] = _text(value)
        variables |= self._alerts_environment()
        if self._settings.testing.fault_points:
            variables["HEADWATER_TESTING__FAULT_POINTS"] = self._settings.testing.fault_points
        return variables

    def _alerts_environment(self) -> dict[str, str]:
        """The settings of alerts that differ from their defaults."""
        section = self._settings.alerts
        variables = {
            f"HEADWATER_ALERTS__{key.upper()}": _text(getattr(section, key))
            for key in section.model_fields_set - {"channels"}
            if getattr(section, key) is not None
        }
        for name, address in section.channels.items():
            variables[f"HEADWATER_ALERTS__CHANNELS__{name.upper()}"] = address.get_secret_value()
        file = rules_file(self._settings)
        if file is not None:
            variables["HEADWATER_ALERTS__FILE"] = str(file)
        return variables


def healthy(settings: Settings, probe: str = "") -> bool:
    """Whether the local service and its database respond, or what another probe checks.

    Args:
        probe: `live`, `ready`, or empty.
    """
    catalog = settings.catalog
    scheme = "https" if catalog.tls_certificate else "http"
    context = None
    if scheme == "https":
        # A liveness check on this machine, for which the certificate has another name.
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    path = f"/api/v1/health/{probe}".removesuffix("/")
    url = f"{scheme}://{_reachable(catalog.host)}:{catalog.port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=3, context=context) as response:  # noqa: S310
            return bool(response.status == 200)
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
