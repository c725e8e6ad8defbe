"""Asks the lineage service: its JSON, within bounds, with the key that is set."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from headwater.errors import InputError, ServiceAnswerError
from headwater.settings import Settings

_SECONDS = 15.0
_MOST_BYTES = 32 * 1024 * 1024


def ask(settings: Settings, path: str) -> Any:
    """The answer to GET, such as `/api/v1/alerts`.

    Raises:
        InputError: the service refuses the key, or does not know the path.
        ServiceAnswerError: it does not answer, or not with JSON.
    """
    url = settings.catalog_url.rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise InputError(f"{url!r} is not the address of a service", hint="see MARQUEZ_URL")
    request = urllib.request.Request(url + path)  # noqa: S310 - looked at above
    if settings.catalog.api_key is not None:
        request.add_header("Authorization", f"Bearer {settings.catalog.api_key.get_secret_value()}")
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
            return json.loads(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        raise _refused(url, path, error.code) from None
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise ServiceAnswerError(
            f"the lineage service at {url} does not answer: {reason}",
            hint="`headwater up catalog` starts it; MARQUEZ_URL says where it is",
        ) from None


def _refused(url: str, path: str, status: int) -> Exception:
    if status in (401, 403):
        return InputError(
            f"the lineage service at {url} wants a key for {path}: {status}",
            hint="set HEADWATER_CATALOG__API_KEY; `headwater keys create` makes one",
        )
    if status == 404:
        return InputError(f"the lineage service at {url} does not know {path}: is it Headwater's?")
    return ServiceAnswerError(f"the lineage service at {url} answered {status} to {path}")
