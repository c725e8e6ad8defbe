"""The process that sends: what happens when there is none."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from pydantic import SecretStr

from headwater.catalog.alerting.channels import Channel
from headwater.catalog.alerting.messages import trial
from headwater.catalog.alerting.sending import Sender
from headwater.errors import NotificationError
from headwater.settings.alerts import AlertsSettings


def test_a_process_that_can_not_be_started_is_a_try_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_process(*values: Any, **named: Any) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(subprocess, "Popen", no_process)
    sender = Sender(Channel("hook", "webhook", SecretStr("https://s3cret")), AlertsSettings())
    with pytest.raises(NotificationError, match="Cannot allocate memory") as error:
        sender.send(trial("hook"))
    assert "s3cret" not in str(error.value)
