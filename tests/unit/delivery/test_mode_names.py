"""Delivery modes by name, and the former names."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from headwater.delivery.modes import FORMER_MODE_NAMES, MODE_NAMES, Transactional, delivery_mode
from headwater.errors import InputError
from headwater.jobs import visits_decorator_job
from headwater.replay.plan import Plan

DEPRECATED = "delivery mode `strict` is deprecated: use `transactional`"


def test_the_former_name_of_a_mode_works_and_logs_the_new_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert isinstance(delivery_mode("strict"), Transactional)
    assert caplog.messages == [DEPRECATED]


@pytest.mark.parametrize("name", MODE_NAMES)
def test_a_current_name_logs_nothing(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert delivery_mode(name).name == name
    assert caplog.messages == []


def test_an_unknown_mode_is_refused_with_the_known_names() -> None:
    with pytest.raises(InputError, match="unknown delivery mode: 'twice'") as refused:
        delivery_mode("twice")
    assert refused.value.hint == (
        "known: exactly-once, transactional, idempotent, batched, individual"
    )


def test_the_help_of_an_option_does_not_list_the_former_name() -> None:
    shown = CliRunner().invoke(visits_decorator_job.main, ["--help"])
    assert "[exactly-once|transactional|" in shown.output
    assert "strict" not in shown.output


def test_a_stored_replay_plan_with_the_former_name_keeps_its_id_and_its_mode() -> None:
    plan = Plan("copy", "copy", "v1", "in", {}, {}, "out", delivery="strict")
    stored = Plan.from_json(json.loads(json.dumps(plan.as_json())))
    assert stored == plan
    assert stored.replay_id == replace(plan, delivery="transactional").replay_id
    assert FORMER_MODE_NAMES[stored.delivery] == Transactional.name
