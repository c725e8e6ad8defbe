"""The sending process of a channel."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from pydantic import SecretStr

from headwater.catalog.alerting.channels import Channel
from headwater.catalog.alerting.messages import sample_message
from headwater.catalog.alerting.sending import ChannelSender
from headwater.errors import NotificationError
from headwater.settings.alerts import AlertsSettings


def test_a_process_that_does_not_start_is_a_failed_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_process(*values: Any, **named: Any) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(subprocess, "Popen", no_process)
    sender = ChannelSender(
        Channel("hook", "webhook", SecretStr("https://s3cret")), AlertsSettings()
    )
    with pytest.raises(NotificationError, match="Cannot allocate memory") as error:
        sender.send(sample_message("hook"))
    assert "s3cret" not in str(error.value)
