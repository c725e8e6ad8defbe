"""GET requests to the lineage service, with the configured key and limits on time and size."""

from __future__ import annotations

import http.client
import json
from typing import Any

from headwater.errors import InputError, ServiceResponseError
from headwater.openlineage.transport import CatalogClient
from headwater.settings import Settings

_MAX_BYTES = 32 * 1024 * 1024


def get_json(settings: Settings, path: str, *, timeout_seconds: float = 15.0) -> Any:
    """Get a path such as `/api/v1/alerts`.

    Redirects are not followed: they could send the key to another server.

    Raises:
        InputError: the service refuses the key, or does not have the path.
        ServiceResponseError: it does not respond, or not with JSON.
    """
    key = settings.catalog.api_key
    client = CatalogClient(
        settings.catalog_url,
        key.get_secret_value() if key else None,
        connect_seconds=timeout_seconds,
        request_seconds=timeout_seconds,
    )
    try:
        response = client.request("GET", path, max_bytes=_MAX_BYTES)
        if response.status != 200:
            raise _refused(client.url, path, response.status)
        return json.loads(response.text)
    except (OSError, http.client.HTTPException, ValueError) as error:
        # Parser messages about invalid JSON or HTTP do not help.
        reason = str(error) if isinstance(error, OSError) else type(error).__name__
        raise ServiceResponseError(
            f"the lineage service at {client.url} does not respond: {reason}",
            hint="start it with `headwater up catalog`, or set its address in MARQUEZ_URL",
        ) from None
    finally:
        client.close()


def _refused(url: str, path: str, status: int) -> Exception:
    if status in (401, 403):
        return InputError(
            f"the lineage service at {url} requires a key for {path}: {status}",
            hint="set HEADWATER_CATALOG__API_KEY; `headwater keys create` creates one",
        )
    if status == 404:
        return InputError(
            f"the service at {url} does not have {path}: it is not Headwater's or an old one",
            hint="set the address of the lineage service in MARQUEZ_URL",
        )
    return ServiceResponseError(f"the lineage service at {url} responded with {status} to {path}")
