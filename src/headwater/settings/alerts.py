"""The section of alerts: their rules, where messages go, and where they may go."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import Field, SecretStr, field_validator

from headwater.settings.sections import Section


class AlertsSettings(Section):
    """Alerts: their rules, where messages go, and where they may go."""

    renamed: ClassVar[Mapping[str, str]] = {"most_incidents": "max_incidents"}

    file: Path | None = Field(
        None,
        description="The rules file. Default: `headwater-alerts.yml` in the working folder or in "
        "`home`, if it is there.",
    )
    # Most hold a password or a token: not in a repr.
    channels: dict[str, SecretStr] = Field(
        default_factory=dict,
        repr=False,
        description="Addresses of channels by name, such as `slack://…`, `mailto://…`, "
        "`pagerduty://…`, `https://…` or `bell://`; `HEADWATER_ALERTS__CHANNELS__NAME` sets one.",
    )
    allow_private: tuple[str, ...] = Field(
        (),
        description="Networks to which messages may go although they are not public, such as "
        '`["10.1.0.0/16"]`.',
    )
    interval_seconds: float = Field(
        10.0,
        gt=0,
        le=3600,
        description="Time between two evaluations of all rules. Failed runs do not wait for it.",
    )
    max_incidents: int = Field(
        50, ge=1, description="Incidents of one alert that may be open at once; others wait."
    )
    send_seconds: float = Field(
        20.0, gt=0, le=300, description="How long sending one message may take."
    )
    give_up_hours: float = Field(
        24.0, gt=0, description="Age at which a message that no one took is given up."
    )

    @field_validator("allow_private")
    @classmethod
    def _networks(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            ipaddress.ip_network(value)
        return values

    @field_validator("channels")
    @classmethod
    def _names_in_lower_case(cls, channels: dict[str, SecretStr]) -> dict[str, SecretStr]:
        # The environment knows no case: a file's names are taken alike.
        return {name.lower(): address for name, address in channels.items()}
