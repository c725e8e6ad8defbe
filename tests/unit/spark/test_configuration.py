"""Configuration is added to that of the user, never replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.settings import load
from headwater.spark import session
from headwater.spark.configuration import joined_list, without_conflicts

DELTA_CATALOG = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"
}


def test_lists_are_joined_without_duplicates() -> None:
    assert joined_list(None, "a") == "a"
    assert joined_list("", "a,b") == "a,b"
    assert joined_list("x, y", "a") == "x, y,a"
    assert joined_list("x, a", "a,b") == "x, a,b"
    # Unchanged, also in its format.
    assert joined_list("x, a", "a") == "x, a"


def test_only_what_is_not_set_is_added() -> None:
    added = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "our.Extension",
        "spark.plugins": "our.Plugin",
        "spark.sql.catalog.demo": "our.Catalog",
        "spark.sql.catalog.demo.type": "hadoop",
        "spark.sql.catalog.demonstration": "our.Catalog",
        **DELTA_CATALOG,
    }
    assert without_conflicts(added, {}) == added
    user = {
        "spark.sql.session.timeZone": "Europe/Berlin",
        "spark.sql.extensions": "own.Extension",
        "spark.plugins": "our.Plugin,own.Plugin",
        "spark.sql.catalog.demo": "own.Catalog",
        "spark.sql.catalog.spark_catalog": "own.SessionCatalog",
    }
    assert without_conflicts(added, user) == {
        "spark.sql.extensions": "own.Extension,our.Extension",
        # Properties of Headwater's catalog are none of the user's catalog of the same name.
        "spark.sql.catalog.demonstration": "our.Catalog",
    }


def test_files_settings_arguments_and_the_caller_take_precedence_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.master local[3]\nspark.driver.memory 2g")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    default, chosen = load(home=tmp_path), load(home=tmp_path, spark={"master": "local[4]"})
    assert session.user_configuration(default)["spark.master"] == "local[3]"
    assert session.user_configuration(chosen)["spark.master"] == "local[4]"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master local[5] pyspark-shell")
    user = session.user_configuration(chosen)
    assert user == {"spark.master": "local[5]", "spark.driver.memory": "2g"}
    added = {"spark.master": "local[*]", "spark.driver.memory": "1g", "spark.ui.enabled": "false"}
    assert session._completed({}, added, user) == {"spark.ui.enabled": "false"}
    wanted = {"spark.master": "local[6]", "spark.sql.extensions": "wanted.Extension"}
    lists = {"spark.sql.extensions": "own.Extension"}
    assert session._completed(wanted, {"spark.sql.extensions": "our.Extension"}, lists) == {
        "spark.master": "local[6]",
        "spark.sql.extensions": "own.Extension,wanted.Extension,our.Extension",
    }
