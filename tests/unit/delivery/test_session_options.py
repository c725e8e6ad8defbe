"""Session configuration of the delivery modes."""

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
