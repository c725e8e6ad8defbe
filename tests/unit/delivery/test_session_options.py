"""What a delivery mode asks of the session that is started for it."""

from __future__ import annotations

from headwater.delivery.registry import MODE_NAMES, delivery_mode
from headwater.settings import Settings


def test_only_tasks_that_wait_for_each_record_are_more_than_there_are_cores() -> None:
    asked = {name: delivery_mode(name).session_options(Settings()) for name in MODE_NAMES}
    (master,) = asked.pop("individual").values()
    assert int(master.removeprefix("local[").removesuffix("]")) >= 8
    assert not any(asked.values())


def test_a_master_of_the_users_own_is_left_alone() -> None:
    own = Settings.model_validate({"spark": {"master": "local[1]"}})
    assert delivery_mode("individual").session_options(own) == {}
