"""Asks the lineage service: its JSON, within bounds, with the key that is set."""

from __future__ import annotations

import http.client
import json
from typing import Any

from headwater.errors import InputError, ServiceAnswerError
from headwater.openlineage.transport import CatalogClient
from headwater.settings import Settings

_SECONDS = 15.0
_MAX_BYTES = 32 * 1024 * 1024


def ask(settings: Settings, path: str) -> Any:
    """The answer to GET, such as `/api/v1/alerts`. Redirects are not followed: they could lead the
    key elsewhere.

    Raises:
        InputError: the service refuses the key, or does not know the path.
        ServiceAnswerError: it does not answer, or not with JSON.
    """
    key = settings.catalog.api_key
    client = CatalogClient(
        settings.catalog_url,
        key.get_secret_value() if key else None,
        connect_seconds=_SECONDS,
        request_seconds=_SECONDS,
    )
    try:
        answer = client.request("GET", path, max_bytes=_MAX_BYTES)
        if answer.status != 200:
            raise _refused(client.url, path, answer.status)
        return json.loads(answer.text)
    except (OSError, http.client.HTTPException, ValueError) as error:
        # Of what is no JSON, or no HTTP, the text is of no use.
        reason = str(error) if isinstance(error, OSError) else type(error).__name__
        raise ServiceAnswerError(
            f"the lineage service at {client.url} does not answer: {reason}",
            hint="`headwater up catalog` starts it; MARQUEZ_URL says where it is",
        ) from None
    finally:
        client.close()


def _refused(url: str, path: str, status: int) -> Exception:
    if status in (401, 403):
        return InputError(
            f"the lineage service at {url} wants a key for {path}: {status}",
            hint="set HEADWATER_CATALOG__API_KEY; `headwater keys create` makes one",
        )
    if status == 404:
        return InputError(f"the lineage service at {url} does not know {path}: is it Headwater's?")
    return ServiceAnswerError(f"the lineage service at {url} answered {status} to {path}")
