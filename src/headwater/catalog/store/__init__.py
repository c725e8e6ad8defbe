"""The catalog's database. The only package that imports psycopg."""

from headwater.catalog.store.database import check_database, shown_address

__all__ = ["check_database", "shown_address"]
