"""The channels of the operator's settings: which there are, and of which kind each is.

An address holds a password or a token. It is told to nobody: neither errors nor logs nor answers
hold more of it than its name and its kind.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from headwater.catalog.alerting.rules import Rule
from headwater.errors import InputError, SettingError

BELL = "bell"
# By the scheme of the address. What is not here is refused: among the many kinds that Apprise
# knows are some that run programs or write to this machine.
KINDS: Mapping[str, str] = {
    "http": "webhook",
    "https": "webhook",
    "json": "webhook",
    "jsons": "webhook",
    "slack": "Slack",
    "mailto": "e-mail",
    "mailtos": "e-mail",
    "pagerduty": "PagerDuty",
    "discord": "Discord",
    "gchat": "Google Chat",
    "msteams": "Microsoft Teams",
    "opsgenie": "Opsgenie",
    "tgram": "Telegram",
    "workflows": "Microsoft Teams",
    "bell": BELL,
}


@dataclass(frozen=True, slots=True)
class Channel:
    """Where messages go."""

    name: str
    kind: str
    address: SecretStr


def read_channels(settings: Mapping[str, SecretStr]) -> dict[str, Channel]:
    """All channels by name.

    Raises:
        SettingError: an address has a scheme that no channel has.
    """
    found: dict[str, Channel] = {}
    for name, address in settings.items():
        scheme, colon, _ = address.get_secret_value().partition("://")
        kind = KINDS.get(scheme.lower())
        if not colon or kind is None:
            setting = f"HEADWATER_ALERTS__CHANNELS__{name.upper()}"
            raise SettingError(
                f"setting {setting}: not the address of a channel",
                hint=f"it begins with one of {', '.join(f'{each}://' for each in KINDS)}",
                setting=setting,
            )
        found[name] = Channel(name, kind, address)
    return found


def find_channel(channels: Mapping[str, Channel], name: str) -> Channel:
    """Raises:
    InputError: no setting defines it.
    """
    channel = channels.get(name.lower())
    if channel is None:
        known = ", ".join(sorted(channels)) or "none"
        raise InputError(
            f"no channel {name!r}; defined are: {known}",
            hint=f"set HEADWATER_ALERTS__CHANNELS__{name.upper()}",
        )
    return channel


def undefined(rules: Iterable[Rule], channels: Container[str]) -> dict[str, list[str]]:
    """Channels that rules name and no setting defines, with the alerts that name them."""
    found: dict[str, list[str]] = {}
    for rule in rules:
        for name in rule.channels:
            if name not in channels:
                found.setdefault(name, []).append(rule.name)
    return found
