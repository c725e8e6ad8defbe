"""The section of alerts: rules, channels and allowed targets."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, SecretStr, field_validator

from headwater.settings.paths import LocalPath
from headwater.settings.sections import Section


class AlertsSettings(Section):
    """Alerts: rules, channels and allowed targets."""

    renamed: ClassVar[Mapping[str, str]] = {"most_incidents": "max_incidents"}

    file: LocalPath | None = Field(
        None,
        description="The rules file. Default: `headwater-alerts.yml` in the working directory or "
        "in `home`, if it exists.",
    )
    # Excluded from the repr, because they contain passwords and tokens.
    channels: dict[str, SecretStr] = Field(
        default_factory=dict,
        repr=False,
        description="Addresses of channels by name, such as `slack://…`, `mailto://…`, "
        "`pagerduty://…`, `https://…` or `bell://`; `HEADWATER_ALERTS__CHANNELS__NAME` sets one.",
    )
    allow_private: tuple[str, ...] = Field(
        (),
        description='Private networks to which messages can be sent, such as `["10.1.0.0/16"]`.',
    )
    interval_seconds: float = Field(
        10.0,
        gt=0,
        le=3600,
        description="Time between two evaluations of all rules. Failed runs do not wait for it.",
    )
    max_incidents: int = Field(
        50, ge=1, description="Maximum number of open incidents per alert; others wait."
    )
    send_seconds: float = Field(20.0, gt=0, le=300, description="Timeout for sending one message.")
    give_up_hours: float = Field(
        24.0, gt=0, description="Age at which a message that could not be sent is dropped."
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
        # Names in environment variables are case-insensitive, so names in a file are as well.
        return {name.lower(): address for name, address in channels.items()}
