"""The database that an operator names: can it be reached, and is it new enough?"""

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
        SettingError: the address can't be read.
        DatabaseUnavailableError: nobody answers there, or the login is refused.
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
            f"PostgreSQL {major} at {shown} is too old; {OLDEST_SERVER} or newer is needed"
        )
    return major


def connection_error(error: Exception, what: str = "PostgreSQL") -> DatabaseUnavailableError:
    """What to say when a database can't be reached."""
    # The driver's text names host, port and user; never the password. Its lines are one reason.
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    return DatabaseUnavailableError(f"{what} can't be used: {reason}", hint=f"look at {_SETTING}")


def shown_address(settings: Settings) -> str:
    """Host, port and database of the address, without user and password.

    Raises:
        SettingError: the address can't be read.
    """
    psycopg = _psycopg()
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(_url(settings))
    except psycopg.ProgrammingError:
        # The driver's own text would quote the address, and with it the password.
        raise SettingError(
            f"{_SETTING} is not an address of a PostgreSQL database",
            hint="the form is `postgresql://user:password@host:5432/name`",
        ) from None
    host, port = parts.get("host", "localhost"), parts.get("port", 5432)
    return f"postgresql://{host}:{port}/{parts.get('dbname', '')}"


def _url(settings: Settings) -> str:
    if settings.catalog.database_url is None:
        raise InternalError("asked for a database of the user's own, and none is set")
    return settings.catalog.database_url.get_secret_value()


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise NotInstalledError(
            f"{_SETTING} is set, and psycopg is not installed",
            hint="pip install 'headwater[service]'",
        ) from None
    return psycopg
