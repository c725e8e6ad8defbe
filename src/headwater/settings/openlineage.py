"""Defaults from OpenLineage's own variables and its `openlineage.yml`.

Headwater's own settings, from any source, take precedence; then `OPENLINEAGE_URL` and its siblings,
then the file of `OPENLINEAGE_CONFIG`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LOG = logging.getLogger(__name__)

CONFIG = "OPENLINEAGE_CONFIG"
DISABLED = "OPENLINEAGE_DISABLED"
# Variables, and the settings that they set.
VARIABLES: Mapping[str, tuple[str, str]] = {
    "OPENLINEAGE_URL": ("catalog", "url"),
    "OPENLINEAGE_ENDPOINT": ("catalog", "endpoint"),
    "OPENLINEAGE_API_KEY": ("catalog", "api_key"),
}
_MAX_CONFIG_BYTES = 1_000_000
# Keys of an `http` transport that Headwater reads or does not need.
_KNOWN_KEYS = frozenset({"type", "url", "endpoint", "auth", "timeout"})
_API_KEYS = ("apiKey", "api_key")


def openlineage_defaults(environment: Mapping[str, str]) -> dict[str, Any]:
    """Values of settings, by section. An empty variable counts as not set."""
    values: dict[str, Any] = {}
    file = environment.get(CONFIG)
    if file:
        for (section, key), value in _from_file(Path(file)).items():
            values.setdefault(section, {})[key] = value
    for name, (section, key) in VARIABLES.items():
        value = environment.get(name)
        if value:
            values.setdefault(section, {})[key] = value
    if environment.get(DISABLED, "").strip().lower() in ("true", "1"):
        values.setdefault("lineage", {})["enabled"] = False
    return values


def _from_file(path: Path) -> dict[tuple[str, str], Any]:
    """The address of an `http` transport. Other content is logged: the file is for other programs,
    too, and must not stop a job."""
    try:
        content = _read(path)
    except (OSError, ValueError, ImportError) as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        _LOG.warning("%s=%s is ignored: %s", CONFIG, path, reason)
        return {}
    transport = content.get("transport")
    if not isinstance(transport, Mapping):
        return {}
    if transport.get("type") != "http":
        _LOG.warning(
            "%s=%s is ignored: transport type %r is not supported, only 'http'; set catalog.url",
            *(CONFIG, path, transport.get("type")),
        )
        return {}
    ignored = sorted(str(key) for key in transport.keys() - _KNOWN_KEYS)
    if ignored:
        _LOG.warning("%s=%s: not supported, ignored: %s", CONFIG, path, ", ".join(ignored))
    return _address(transport, path)


def _address(transport: Mapping[str, Any], path: Path) -> dict[tuple[str, str], Any]:
    values = {
        ("catalog", "url"): transport.get("url"),
        ("catalog", "endpoint"): transport.get("endpoint"),
        ("lineage", "request_seconds"): transport.get("timeout"),
    }
    auth = transport.get("auth")
    if isinstance(auth, Mapping):
        if auth.get("type") == "api_key":
            keys = (auth.get(name) for name in _API_KEYS)
            values[("catalog", "api_key")] = next((key for key in keys if key), None)
        else:
            _LOG.warning(
                "%s=%s: auth type %r is not supported, only 'api_key'; set catalog.api_key",
                *(CONFIG, path, auth.get("type")),
            )
    return {name: value for name, value in values.items() if value is not None}


def _read(path: Path) -> Mapping[str, Any]:
    import yaml

    with path.open("rb") as file:
        text = file.read(_MAX_CONFIG_BYTES + 1)
    if len(text) > _MAX_CONFIG_BYTES:
        raise ValueError(f"larger than {_MAX_CONFIG_BYTES} bytes")
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"not valid YAML: {error}") from None
    if not isinstance(content, Mapping):
        raise ValueError("not a YAML mapping")
    return content
