"""API keys: shown once, stored as hashes."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg import AsyncConnection

from headwater.catalog.store.database import connection_error

ROLES = ("read", "write", "admin")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """The metadata of a key, without its secret."""

    id: str
    name: str
    role: str
    # None: all namespaces.
    namespaces: tuple[str, ...] | None
    created_at: datetime
    revoked_at: datetime | None


_FORMAT = re.compile(r"hw_([0-9a-f]{8})_([A-Za-z0-9_-]{1,128})")
# A service of an earlier version, which may still run, sets only `namespace`.
_LIMITED = "CASE WHEN namespace IS NOT NULL THEN coalesce(namespaces, ARRAY[namespace]) END"
_COLUMNS = f"SELECT id, name, role, {_LIMITED}, created_at, revoked_at FROM api_keys"


def create_key(
    url: str, name: str, role: str, namespaces: str | Sequence[str] | None
) -> tuple[ApiKey, str]:
    """Create a key; returns its metadata and the key itself, which is not stored.

    Args:
        namespaces: the only namespaces that the key can access; None or empty: all.
    """
    granted = [namespaces] if isinstance(namespaces, str) else list(namespaces or ())
    # A secret of 256 random bits can't be guessed: it needs no slow hash.
    key_id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    with _connect(url) as connection:
        connection.execute(
            "INSERT INTO api_keys (id, name, hash, role, namespace, namespaces) "
            "VALUES (%s, %s, %s, %s, %s, %s)",
            (
                key_id,
                name,
                _hash(secret),
                role,
                granted[0] if granted else None,
                granted or None,
            ),
        )
    (created,) = [key for key in list_keys(url) if key.id == key_id]
    return created, f"hw_{key_id}_{secret}"


def list_keys(url: str) -> list[ApiKey]:
    with _connect(url) as connection:
        rows = connection.execute(_COLUMNS + " ORDER BY created_at, id").fetchall()
    return [_key(row) for row in rows]


def revoke_key(url: str, key_id: str) -> bool:
    """Returns whether there was a valid key with this id."""
    with _connect(url) as connection:
        result = connection.execute(
            "UPDATE api_keys SET revoked_at = now() WHERE id = %s AND revoked_at IS NULL", (key_id,)
        )
        return result.rowcount == 1


def looks_like_key(token: str) -> bool:
    """Whether the token has the format of a key: `hw_`, eight hexadecimal digits and a secret."""
    return _FORMAT.fullmatch(token) is not None


async def find_key(connection: AsyncConnection[Any], token: str) -> ApiKey | None:
    """The key with this token, if there is one and it is not revoked."""
    match = _FORMAT.fullmatch(token)
    if match is None:
        return None
    key_id, secret = match.groups()
    cursor = await connection.execute(
        f"SELECT hash, id, name, role, {_LIMITED}, created_at, revoked_at FROM api_keys "
        "WHERE id = %s AND revoked_at IS NULL",
        (key_id,),
    )
    row = await cursor.fetchone()
    if row is None or not hmac.compare_digest(bytes(row[0]), _hash(secret)):
        return None
    return _key(row[1:])


def _key(row: Sequence[Any]) -> ApiKey:
    key_id, name, role, namespaces, created, revoked = row
    granted = None if namespaces is None else tuple(namespaces)
    return ApiKey(key_id, name, role, granted, created, revoked)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _connect(url: str) -> psycopg.Connection[Any]:
    try:
        return psycopg.connect(url, connect_timeout=10)
    except psycopg.OperationalError as error:
        raise connection_error(error) from None
