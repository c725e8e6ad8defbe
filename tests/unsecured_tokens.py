"""A provider of tokens that a test broker accepts: unsigned JSON web tokens."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

from headwater.settings import variable

# A file that records each call: the clients of Java call it in other processes.
CALLS = "TEST_TOKEN_CALLS"


def token() -> tuple[str, float, str]:
    """A token of the user `ann` for a minute."""
    calls = variable(CALLS)
    if calls:
        with Path(calls).open("a") as file:
            file.write("called\n")
    now = time.time()
    header = _part({"alg": "none"})
    claims = _part({"sub": "ann", "iat": now - 5, "exp": now + 60})
    return f"{header}.{claims}.", now + 60, "ann"


def failing() -> tuple[str, float]:
    raise RuntimeError("the identity provider is down")


def _part(content: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
