"""The cost of resource usage."""

from __future__ import annotations

import json
from decimal import Decimal
from importlib import resources

import pytest

from headwater.errors import SettingError
from headwater.settings import load
from headwater.spark.measures.run_measures import Usage, cost_facet, money

USED = Usage(
    tasks=4,
    failed_tasks=1,
    core_millis=1_800_000,
    cpu_nanos=900_000_000_000,
    bytes_read=2_000_000_000,
    bytes_written=500_000_000,
    shuffle_bytes_read=3,
    shuffle_bytes_written=1_000_000_000,
    peak_task_memory=77,
)
PRICES = {
    "per_core_hour": "0.05",
    "per_gb_read": "0.01",
    "per_gb_written": "0.02",
    "per_gb_shuffled": "0.001",
    "currency": "EUR",
}


def test_money_is_the_sum_of_cores_and_bytes_times_their_prices() -> None:
    # 0.5 h x 0.05 + 2 GB x 0.01 + 0.5 GB x 0.02 + 1 GB x 0.001
    assert money(USED, load(cost=PRICES)) == Decimal("0.056000")


def test_the_facet_has_usage_money_and_prices() -> None:
    facet = cost_facet(USED, load(cost=PRICES))
    assert (facet["coreSeconds"], facet["cpuSeconds"]) == (1800.0, 900.0)
    assert (facet["tasks"], facet["failedTasks"], facet["peakTaskMemoryBytes"]) == (4, 1, 77)
    assert facet["money"] == {
        "amount": 0.056,
        "currency": "EUR",
        "perCoreHour": 0.05,
        "perGbRead": 0.01,
        "perGbWritten": 0.02,
        "perGbShuffled": 0.001,
    }


def test_the_facet_has_the_properties_of_its_schema() -> None:
    text = resources.files("headwater").joinpath("catalog/facets/CostRunFacet.json").read_text()
    defined = json.loads(text)["$defs"]
    (content,) = defined["CostRunFacet"]["allOf"][1:]
    facet = cost_facet(USED, load(cost=PRICES))
    assert facet.keys() - {"_producer", "_schemaURL"} == content["properties"].keys()
    assert facet["money"].keys() == defined["Money"]["properties"].keys()


def test_without_prices_the_facet_has_only_usage() -> None:
    assert money(USED, load()) is None
    assert "money" not in cost_facet(USED, load())


def test_a_negative_price_is_refused() -> None:
    with pytest.raises(SettingError, match="HEADWATER_COST__PER_CORE_HOUR"):
        load(cost={"per_core_hour": -1})
