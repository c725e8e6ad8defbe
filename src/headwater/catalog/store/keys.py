"""API keys: shown once, kept as hashes."""

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
    """What is known of a key. Not the key."""

    id: str
    name: str
    role: str
    namespace: str | None
    created_at: datetime
    revoked_at: datetime | None


_FORM = re.compile(r"hw_([0-9a-f]{8})_([A-Za-z0-9_-]{1,128})")
_COLUMNS = "SELECT id, name, role, namespace, created_at, revoked_at FROM api_keys"


def create_key(url: str, name: str, role: str, namespace: str | None) -> tuple[ApiKey, str]:
    """Make a key; the second value is the key itself, which can't be had again."""
    # 256 random bits can't be guessed: a plain hash is enough, and quick to compare.
    key_id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    with _connect(url) as connection:
        connection.execute(
            "INSERT INTO api_keys (id, name, hash, role, namespace) VALUES (%s, %s, %s, %s, %s)",
            (key_id, name, _hash(secret), role, namespace),
        )
    (made,) = [key for key in list_keys(url) if key.id == key_id]
    return made, f"hw_{key_id}_{secret}"


def list_keys(url: str) -> list[ApiKey]:
    with _connect(url) as connection:
        cursor = connection.cursor(row_factory=class_row(ApiKey))
        return cursor.execute(_COLUMNS + " ORDER BY created_at, id").fetchall()


def revoke_key(url: str, key_id: str) -> bool:
    """Tells whether there was such a key that was not revoked yet."""
    with _connect(url) as connection:
        done = connection.execute(
            "UPDATE api_keys SET revoked_at = now() WHERE id = %s AND revoked_at IS NULL", (key_id,)
        )
        return done.rowcount == 1


def looks_like_key(token: str) -> bool:
    """Whether it is worth asking the database: `hw_` with eight digits, and a secret."""
    return _FORM.fullmatch(token) is not None


async def find_key(connection: AsyncConnection[Any], token: str) -> ApiKey | None:
    """The key that was sent, if it is one of ours and not revoked."""
    form = _FORM.fullmatch(token)
    if form is None:
        return None
    key_id, secret = form.groups()
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
