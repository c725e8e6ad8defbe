"""The catalog's database. The only package that imports psycopg."""

from headwater.catalog.store.database import check_database, connection_error, shown_address

__all__ = ["check_database", "connection_error", "migrate", "shown_address"]


def migrate(url: str) -> int:
    """Apply all migrations; see `headwater.catalog.store.schema`.

    Raises:
        DatabaseUnavailableError: the server is not reachable, or the user lacks privileges.
        UnsupportedVersionError: the schema is newer than this Headwater.
    """
    import psycopg

    from headwater.catalog.store.schema import migrate as run

    try:
        return run(url)
    except (psycopg.OperationalError, psycopg.errors.InsufficientPrivilege) as error:
        raise connection_error(error) from None
