"""Tokens for OAUTHBEARER from a function of the user (`kafka.token_provider`).

The Python client calls it. Java's clients, in the driver and in executors, run this module as a
program: `python -m headwater.settings.tokens module:function` prints one token as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import SettingError


@dataclass(frozen=True)
class LoginToken:
    """A token; `expires_at` in seconds since 1970."""

    value: str = field(repr=False)
    expires_at: float
    principal: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)


def load_provider(name: str) -> Callable[[], LoginToken]:
    """The function `module:function`, which returns `(token, expiry)`, optionally followed by the
    principal and extensions; expiry is in seconds since 1970.

    Raises:
        SettingError: it can't be imported. The returned function raises it for another result.
    """
    module, _, function = name.partition(":")
    try:
        provider = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise SettingError(
            f"kafka.token_provider {name!r} can't be imported: {error}",
            hint="set HEADWATER_KAFKA__TOKEN_PROVIDER to `module:function` of a module on the "
            "PYTHONPATH",
        ) from None

    def token() -> LoginToken:
        returned: Any = provider()
        try:
            value, expires_at, *others = returned
            return LoginToken(str(value), float(expires_at), *others)
        except (TypeError, ValueError):
            # Without the value, which may be a token.
            raise SettingError(
                f"kafka.token_provider {name!r} returned a {type(returned).__name__}, not (token, "
                "expiry in seconds since 1970), with an optional principal and extensions"
            ) from None

    return token


def print_token(provider: str) -> int:
    """Print a token as JSON; returns the exit code."""
    sys.path.insert(0, "")
    try:
        token = load_provider(provider)()
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        print(json.dumps({"error": f"{type(error).__name__}: {first}"}))
        return 1
    print(
        json.dumps(
            {
                "token": token.value,
                "expiresAt": round(token.expires_at * 1000),
                "principal": token.principal,
                "extensions": dict(token.extensions),
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(print_token(sys.argv[1]))
