"""Request bodies: limited in size, also after decompression, and in time."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from fastapi import Request

from headwater.catalog.api.problems import ApiError, refused
from headwater.catalog.ingest import BadEventError, parse_json
from headwater.catalog.ingest.checks import Checks, parse_time
from headwater.settings.catalog import CatalogSettings

_MIB = 1024 * 1024
_CHUNK = 256 * 1024
# What follows the end of a gzip member is copied: in small pieces the time is linear in the size.
_PIECE = 4096
# Concatenated files have a few members, block-compressed ones one for each 64 KiB.
_MAX_MEMBERS = 10_000
# Entries of a list in a PUT or POST body; each costs a row or two.
_MAX_ENTRIES = 10_000


async def read_body(request: Request, settings: CatalogSettings) -> bytes:
    """Read and decompress the body.

    Raises:
        ApiError: 413 as soon as it is too large, 408 if it takes too long, 415 if its encoding is
            not supported, 400 if it is not gzip as announced.
    """
    max_bytes = int(settings.max_body_mb * _MIB)
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise refused(415, f"Content-Encoding '{encoding}' is not supported, only gzip")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > max_bytes:
        raise _too_large(settings)
    gunzip = _Gunzip() if encoding == "gzip" else None
    parts: list[bytes] = []
    size = received = 0
    try:
        async with asyncio.timeout(settings.body_seconds):
            async for chunk in request.stream():
                received += len(chunk)
                for part in gunzip.parts(chunk) if gunzip else (chunk,):
                    size += len(part)
                    # Both: an endless stream of empty gzip members decompresses to nothing.
                    if max(size, received) > max_bytes:
                        raise _too_large(settings)
                    parts.append(part)
    except TimeoutError:
        raise refused(408, f"the body took longer than {settings.body_seconds:g} s") from None
    except zlib.error:
        raise refused(400, "body is not gzip") from None
    if gunzip is not None and not gunzip.ended:
        raise refused(400, "body is not gzip, or is truncated")
    return b"".join(parts)


class _Gunzip:
    """Decompresses a stream of one or more gzip members."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)
        self._members = 1

    @property
    def ended(self) -> bool:
        return self._member.eof

    def parts(self, chunk: bytes) -> Iterator[bytes]:
        for start in range(0, len(chunk), _PIECE):
            yield from self._parts(chunk[start : start + _PIECE])

    def _parts(self, piece: bytes) -> Iterator[bytes]:
        # In chunks, so that the size is checked before a small body expands to a large one.
        while piece:
            if self._member.eof:
                self._members += 1
                if self._members > _MAX_MEMBERS:
                    raise refused(400, f"body has more than {_MAX_MEMBERS} gzip members")
                self._member = zlib.decompressobj(wbits=31)
            yield self._member.decompress(piece, _CHUNK)
            piece = self._member.unconsumed_tail or self._member.unused_data


def _too_large(settings: CatalogSettings) -> ApiError:
    return refused(
        413,
        f"the body is larger than {settings.max_body_mb:g} MiB",
        headers={"Connection": "close"},
    )


def require_type(request: Request, *kinds: str) -> str:
    """The media type of the request.

    Raises:
        ApiError: 415, it is not one of `kinds`.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in kinds:
        raise refused(415, "HTTP 415 Unsupported Media Type")
    return kind


class Fields:
    """Validates the fields of a JSON object in a request body."""

    def __init__(self, body: Any, checks: Checks | None = None) -> None:
        if not isinstance(body, dict):
            raise BadEventError("body must be a JSON object", status=400)
        self._body = body
        self._checks = checks or Checks()

    @classmethod
    async def of(cls, request: Request, settings: CatalogSettings) -> Fields:
        require_type(request, "application/json")
        return cls(parse_json(await read_body(request, settings), settings.max_depth))

    def done(self) -> None:
        """Raises:
        BadEventError: names every invalid field.
        """
        self._checks.raise_any()

    def name(self, key: str) -> str:
        return self._checks.name(self._body.get(key), key)

    def text(self, key: str) -> str | None:
        value = self._body.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or "\0" in value:
            self._checks.fail(f"{key} must be a string without NUL characters")
            return None
        return value

    def choice(self, key: str, *choices: str) -> str:
        value = self._body.get(key)
        if value is None:
            self._checks.fail(f"{key} must not be null")
        elif value not in choices:
            self._checks.fail(f"{key} must be one of {', '.join(choices)}")
        return str(value)

    def uuid(self, key: str) -> UUID | None:
        return None if self._body.get(key) is None else self._checks.uuid(self._body[key], key)

    def time(self, key: str) -> datetime | None:
        if self._body.get(key) is None:
            return None
        try:
            return parse_time(self._body[key])
        except ValueError as error:
            self._checks.fail(f"{key} {error}")
            return None

    def names(self, key: str) -> list[str]:
        values = self._list(key)
        return [self._checks.name(each, f"{key}[{i}]") for i, each in enumerate(values)]

    def dataset_names(self, key: str) -> list[tuple[str, str]]:
        names: list[tuple[str, str]] = []
        for i, each in enumerate(self._list(key)):
            dataset = self._checks.object(each, f"{key}[{i}]")
            namespace = self._checks.name(dataset.get("namespace"), f"{key}[{i}].namespace")
            names.append((namespace, self._checks.name(dataset.get("name"), f"{key}[{i}].name")))
        return names

    def columns(self, key: str) -> list[dict[str, Any]] | None:
        if self._body.get(key) is None:
            return None
        columns: list[dict[str, Any]] = []
        for i, each in enumerate(self._list(key)):
            column = Fields(self._checks.object(each, f"{key}[{i}]"), self._checks)
            columns.append(
                {
                    "name": column.name("name"),
                    "type": column.text("type"),
                    "description": column.text("description"),
                    "tags": column.names("tags"),
                }
            )
        return columns

    def _list(self, key: str) -> list[Any]:
        values = self._checks.list(self._body.get(key), key)
        if len(values) > _MAX_ENTRIES:
            self._checks.fail(f"{key} must have at most {_MAX_ENTRIES} entries")
            return []
        return values

    def mapping(self, key: str) -> dict[str, Any]:
        value = self._body.get(key)
        return {} if value is None else self._checks.object(value, key)
