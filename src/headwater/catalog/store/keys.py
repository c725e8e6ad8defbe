"""API keys: shown once, stored as hashes."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import class_row

from headwater.catalog.store.database import connection_error

ROLES = ("read", "write", "admin")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """The metadata of a key, without its secret."""

    id: str
    name: str
    role: str
    namespace: str | None
    created_at: datetime
    revoked_at: datetime | None


_FORMAT = re.compile(r"hw_([0-9a-f]{8})_([A-Za-z0-9_-]{1,128})")
_COLUMNS = "SELECT id, name, role, namespace, created_at, revoked_at FROM api_keys"


def create_key(url: str, name: str, role: str, namespace: str | None) -> tuple[ApiKey, str]:
    """Create a key; returns its metadata and the key itself, which is not stored."""
    # A secret of 256 random bits can't be guessed: it needs no slow hash.
    key_id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    with _connect(url) as connection:
        connection.execute(
            "INSERT INTO api_keys (id, name, hash, role, namespace) VALUES (%s, %s, %s, %s, %s)",
            (key_id, name, _hash(secret), role, namespace),
        )
    (created,) = [key for key in list_keys(url) if key.id == key_id]
    return created, f"hw_{key_id}_{secret}"


def list_keys(url: str) -> list[ApiKey]:
    with _connect(url) as connection:
        cursor = connection.cursor(row_factory=class_row(ApiKey))
        return cursor.execute(_COLUMNS + " ORDER BY created_at, id").fetchall()


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
        "SELECT hash, id, name, role, namespace, created_at, revoked_at FROM api_keys "
        "WHERE id = %s AND revoked_at IS NULL",
        (key_id,),
    )
    row = await cursor.fetchone()
    if row is None or not hmac.compare_digest(bytes(row[0]), _hash(secret)):
        return None
    return ApiKey(*row[1:])


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _connect(url: str) -> psycopg.Connection[Any]:
    try:
        return psycopg.connect(url, connect_timeout=10)
    except psycopg.OperationalError as error:
        raise connection_error(error) from None
