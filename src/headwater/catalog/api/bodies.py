"""Bodies of requests: bounded in size, in time, and in what they unpack to."""

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
# Entries of a list that is sent to be stored by hand; each costs a row or two.
_MAX_ENTRIES = 10_000


async def read_body(request: Request, settings: CatalogSettings) -> bytes:
    """The unpacked body.

    Raises:
        ApiError: 413 as soon as it is too large, 408 if it takes too long, 415 if it is packed
            in a way that is not known.
    """
    most = int(settings.max_body_mb * _MIB)
    packed = request.headers.get("content-encoding", "identity").lower()
    if packed not in ("identity", "gzip"):
        raise refused(415, f"Content-Encoding '{packed}' is not known; gzip is")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise _too_large(settings)
    unpack = _Gzip() if packed == "gzip" else None
    parts: list[bytes] = []
    size = sent = 0
    try:
        async with asyncio.timeout(settings.body_seconds):
            async for chunk in request.stream():
                sent += len(chunk)
                for part in unpack.parts(chunk) if unpack else (chunk,):
                    size += len(part)
                    # Both: what is packed may unpack to nothing, without an end.
                    if max(size, sent) > most:
                        raise _too_large(settings)
                    parts.append(part)
    except TimeoutError:
        raise refused(408, f"the body took longer than {settings.body_seconds:g} s") from None
    except zlib.error:
        raise refused(400, "body is not gzip") from None
    if unpack is not None and not unpack.ended:
        raise refused(400, "body is not gzip, or was cut off")
    return b"".join(parts)


class _Gzip:
    """Unpacks a stream of one or more members, as the format allows them."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)

    @property
    def ended(self) -> bool:
        return self._member.eof

    def parts(self, chunk: bytes) -> Iterator[bytes]:
        # In pieces: a small body must not become a large one before it is counted.
        while chunk:
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=31)
            yield self._member.decompress(chunk, _CHUNK)
            chunk = self._member.unconsumed_tail or self._member.unused_data


def _too_large(settings: CatalogSettings) -> ApiError:
    return refused(
        413,
        f"the body is larger than {settings.max_body_mb:g} MiB",
        headers={"Connection": "close"},
    )


def require_type(request: Request, *kinds: str) -> str:
    """The media type, if it is one of these."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in kinds:
        raise refused(415, "HTTP 415 Unsupported Media Type")
    return kind


class Fields:
    """The fields of a JSON object that was sent to be stored."""

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
        BadEventError: names every field that is wrong.
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
        listed = self._list(key)
        return [self._checks.name(each, f"{key}[{i}]") for i, each in enumerate(listed)]

    def dataset_names(self, key: str) -> list[tuple[str, str]]:
        listed = self._list(key)
        found: list[tuple[str, str]] = []
        for i, each in enumerate(listed):
            one = self._checks.object(each, f"{key}[{i}]")
            namespace = self._checks.name(one.get("namespace"), f"{key}[{i}].namespace")
            found.append((namespace, self._checks.name(one.get("name"), f"{key}[{i}].name")))
        return found

    def columns(self, key: str) -> list[dict[str, Any]] | None:
        if self._body.get(key) is None:
            return None
        found: list[dict[str, Any]] = []
        for i, each in enumerate(self._list(key)):
            one = Fields(self._checks.object(each, f"{key}[{i}]"), self._checks)
            found.append(
                {
                    "name": one.name("name"),
                    "type": one.text("type"),
                    "description": one.text("description"),
                    "tags": one.names("tags"),
                }
            )
        return found

    def _list(self, key: str) -> list[Any]:
        listed = self._checks.list(self._body.get(key), key)
        if len(listed) > _MAX_ENTRIES:
            self._checks.fail(f"{key} must have at most {_MAX_ENTRIES} entries")
            return []
        return listed

    def mapping(self, key: str) -> dict[str, Any]:
        value = self._body.get(key)
        return {} if value is None else self._checks.object(value, key)
