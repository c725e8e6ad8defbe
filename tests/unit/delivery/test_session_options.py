"""Configuration of sessions and sources by the delivery modes."""

from __future__ import annotations

from headwater.delivery.modes import MODE_NAMES, delivery_mode
from headwater.settings import Settings


def test_only_the_individual_mode_has_more_tasks_than_cores() -> None:
    options = {name: delivery_mode(name).session_options(Settings()) for name in MODE_NAMES}
    (master,) = options.pop("individual").values()
    assert int(master.removeprefix("local[").removesuffix("]")) >= 8
    assert not any(options.values())


def test_a_configured_master_is_not_changed() -> None:
    settings = Settings.model_validate({"spark": {"master": "local[1]"}})
    assert delivery_mode("individual").session_options(settings) == {}


def test_a_batch_that_may_have_to_be_recovered_has_a_limit() -> None:
    settings = Settings.model_validate({"jobs": {"max_records_per_batch": 7}})
    limits = {name: delivery_mode(name).source_options({}, settings) for name in MODE_NAMES}
    assert limits.pop("exactly-once") == {"maxOffsetsPerTrigger": 7}
    assert not any(limits.values())
    assert Settings().jobs.max_records_per_batch == 1_000_000
    given = {"maxoffsetspertrigger": 3}
    assert delivery_mode("exactly-once").source_options(given, settings) == {}
