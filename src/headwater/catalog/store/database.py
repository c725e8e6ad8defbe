"""Checks the configured database: it must be reachable and new enough."""

from __future__ import annotations

from typing import Any

from headwater.errors import (
    DatabaseUnavailableError,
    InternalError,
    NotInstalledError,
    SettingError,
    UnsupportedVersionError,
)
from headwater.settings import Settings

OLDEST_SERVER = 14
_SETTING = "HEADWATER_CATALOG__DATABASE_URL"
_CONNECT_SECONDS = 10


def check_database(settings: Settings) -> int:
    """Connect once; returns the server's major version.

    Raises:
        SettingError: the URL is invalid.
        DatabaseUnavailableError: the server is not reachable, or refuses the login.
        UnsupportedVersionError: the server is older than 14.
    """
    psycopg = _psycopg()
    shown = shown_address(settings)
    try:
        with psycopg.connect(_url(settings), connect_timeout=_CONNECT_SECONDS) as connection:
            major = int(connection.info.server_version) // 10_000
    except psycopg.Error as error:
        raise connection_error(error, f"PostgreSQL at {shown}") from None
    if major < OLDEST_SERVER:
        raise UnsupportedVersionError(
            f"PostgreSQL {major} at {shown} is not supported: {OLDEST_SERVER} or newer is required"
        )
    return major


def connection_error(error: Exception, what: str = "PostgreSQL") -> DatabaseUnavailableError:
    """The error for a failed connection."""
    # The driver's message names host, port and user, never the password. It has several lines.
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    return DatabaseUnavailableError(f"cannot use {what}: {reason}", hint=f"check {_SETTING}")


def shown_address(settings: Settings) -> str:
    """Host, port and database of the URL, without user and password.

    Raises:
        SettingError: the URL is invalid.
    """
    psycopg = _psycopg()
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(_url(settings))
    except psycopg.ProgrammingError:
        # Not the driver's message: it quotes the URL with the password.
        raise SettingError(
            f"{_SETTING} is not a PostgreSQL URL",
            hint="expected `postgresql://user:password@host:5432/name`",
        ) from None
    host, port = parts.get("host", "localhost"), parts.get("port", 5432)
    return f"postgresql://{host}:{port}/{parts.get('dbname', '')}"


def _url(settings: Settings) -> str:
    if settings.catalog.database_url is None:
        raise InternalError(f"{_SETTING} is not set")
    return settings.catalog.database_url.get_secret_value()


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise NotInstalledError(
            f"{_SETTING} is set, but psycopg is not installed",
            hint="pip install 'headwater[service]'",
        ) from None
    return psycopg
