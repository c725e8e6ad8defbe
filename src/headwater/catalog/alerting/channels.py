"""The notification channels that the settings define.

The address of a channel contains a password or a token. Errors, logs and API responses show only
the name and the kind of a channel.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from headwater.catalog.alerting.rules import Rule
from headwater.errors import InputError, SettingError

BELL = "bell"
# By the scheme of the address. Other schemes are rejected: some of the kinds that Apprise supports
# run programs or write to this machine.
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
    """A destination of messages."""

    name: str
    kind: str
    address: SecretStr


def read_channels(settings: Mapping[str, SecretStr]) -> dict[str, Channel]:
    """All channels by name.

    Raises:
        SettingError: an address has an unsupported scheme.
    """
    channels: dict[str, Channel] = {}
    for name, address in settings.items():
        scheme, colon, _ = address.get_secret_value().partition("://")
        kind = KINDS.get(scheme.lower())
        if not colon or kind is None:
            setting = f"HEADWATER_ALERTS__CHANNELS__{name.upper()}"
            raise SettingError(
                f"setting {setting}: not a channel address",
                hint=f"it must begin with one of {', '.join(f'{each}://' for each in KINDS)}",
                setting=setting,
            )
        channels[name] = Channel(name, kind, address)
    return channels


def find_channel(channels: Mapping[str, Channel], name: str) -> Channel:
    """Find a channel by its name, in any case.

    Raises:
        InputError: no setting defines it.
    """
    channel = channels.get(name.lower())
    if channel is None:
        known = ", ".join(sorted(channels)) or "none"
        raise InputError(
            f"no channel {name!r}; defined channels: {known}",
            hint=f"set HEADWATER_ALERTS__CHANNELS__{name.upper()}",
        )
    return channel


def undefined_channels(rules: Iterable[Rule], channels: Container[str]) -> dict[str, list[str]]:
    """Channels that no setting defines, with the alerts that name them."""
    alerts: dict[str, list[str]] = {}
    for rule in rules:
        for name in rule.channels:
            if name not in channels:
                alerts.setdefault(name, []).append(rule.name)
    return alerts
