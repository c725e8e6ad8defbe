"""The configuration of a Spark session from the settings."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.collector import configuration, listener, session
from headwater.collector.configuration import LISTENER, lineage_configuration
from headwater.collector.metadata import commit_of, relative_path
from headwater.errors import InputError, SettingError
from headwater.openlineage import LineageRun
from headwater.openlineage.events import Event
from headwater.settings import Settings, load
from headwater.spark.configuration import LINEAGE_PLUGIN, connectors_for, session_configuration
from headwater.spark.session import _placement
from headwater.spark.writers.merge_into import MergeRule


def catalog_of(tmp_path: Path, **iceberg: object) -> dict[str, str]:
    settings = load(home=tmp_path, iceberg=iceberg)
    found = session_configuration(("iceberg",), settings)
    prefix = f"spark.sql.catalog.{settings.iceberg.catalog}."
    return {k.removeprefix(prefix): v for k, v in found.items() if k.startswith(prefix)}


def test_an_iceberg_catalog_is_in_a_folder_by_default(
    tmp_path: Path,
) -> None:
    assert catalog_of(tmp_path) == {
        "type": "hadoop",
        "warehouse": f"file://{tmp_path}/warehouse",
        "cache-enabled": "false",
    }
    rest = catalog_of(
        tmp_path, type="rest", uri="https://catalog.example/api", options={"token": "t"}
    )
    assert rest == {
        "type": "rest",
        "uri": "https://catalog.example/api",
        "token": "t",
        "cache-enabled": "false",
    }
    jdbc = catalog_of(
        tmp_path, type="jdbc", uri="jdbc:postgresql://db/lake", warehouse="s3a://lake/tables"
    )
    assert (jdbc["uri"], jdbc["warehouse"]) == ("jdbc:postgresql://db/lake", "s3a://lake/tables")
    with pytest.raises(SettingError, match=r"requires `iceberg\.uri`"):
        load(home=tmp_path, iceberg={"type": "rest"})


def test_executors_of_a_cluster_get_the_jars_but_no_local_options() -> None:
    local = _placement("local[4]", ["a.jar"])
    assert local["spark.hadoop.fs.file.impl"] == "dev.headwater.spark.LocalFiles"
    assert "spark.jars" not in local
    for master in ("spark://there:7077", "local-cluster[2,1,512]", "yarn"):
        placed = {"spark.master": master, "spark.jars": "a.jar,b.jar"}
        assert _placement(master, ["a.jar", "b.jar"]) == placed


def test_options_of_spark_submit_apply_to_a_tracked_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_HOME", str(tmp_path))
    given = {"spark.openlineage.namespace": "lake", "spark.openlineage.parentJobName": "nightly"}
    monkeypatch.setattr(configuration, "spark_submit_options", lambda: given)
    monkeypatch.setattr(listener, "_trackers", [])
    manager = SimpleNamespace(listListeners=list)
    streams = SimpleNamespace(_jsqm=manager, addListener=lambda tracker: None)
    spark: Any = SimpleNamespace(streams=streams, sparkContext=SimpleNamespace(appName="app"))
    tracker = listener.track_streaming(spark)
    assert tracker is not None
    found = tracker._settings.lineage
    assert (found.namespace, found.parent_job) == ("lake", "nightly")
    # Explicit settings win.
    monkeypatch.setattr(listener, "_trackers", [])
    own = listener.track_streaming(spark, load(home=tmp_path))
    assert own is not None
    assert own._settings.lineage.namespace == "default"


def test_the_driver_of_the_catalog_database_is_added(tmp_path: Path) -> None:
    given = {"type": "jdbc", "uri": "jdbc:postgresql://db/lake"}
    settings = load(home=tmp_path, iceberg=given)
    assert connectors_for(("iceberg",), settings) == ("iceberg", "postgresql")
    assert connectors_for(("kafka",), settings) == ("kafka",)


def test_the_listener_is_configured_as_documented_and_the_user_wins(tmp_path: Path) -> None:
    settings = load(home=tmp_path, catalog={"url": "http://marquez:5000"})
    found = lineage_configuration("MyJob", settings, {"spark.extraListeners": "a.B"})
    assert found.through_spool
    assert found.spark["spark.extraListeners"] == f"a.B,{LISTENER}"
    assert found.spark["spark.plugins"] == LINEAGE_PLUGIN
    assert found.spark["spark.openlineage.transport.type"] == "http"
    assert found.spark["spark.openlineage.transport.url"] == "http://marquez:5000"
    assert found.spark["spark.openlineage.namespace"] == "default"
    own = {
        "spark.openlineage.transport.url": "http://own:1",
        "spark.openlineage.namespace": "mine",
        "spark.openlineage.transport.auth.apiKey": "secret",
        "spark.openlineage.parentJobNamespace": "airflow",
        "spark.openlineage.parentJobName": "dag.task",
        "spark.openlineage.parentRunId": "0190c0de-0000-7000-8000-000000000001",
    }
    changed = lineage_configuration("MyJob", settings, own).settings
    assert (changed.catalog_url, changed.lineage.namespace) == ("http://own:1", "mine")
    assert changed.catalog.api_key is not None
    assert changed.catalog.api_key.get_secret_value() == "secret"
    event: list[Event] = []
    LineageRun.from_settings(changed, event.append, "MyJob", "a run").start()
    parent = event[0]["run"]["facets"]["parent"]
    assert parent["job"] == {"namespace": "airflow", "name": "dag.task"}
    assert parent["run"]["runId"].startswith("0190c0de")
    # Another transport does not change the address for Headwater's own events.
    kafka = {"spark.openlineage.transport.type": "kafka"}
    found = lineage_configuration("MyJob", settings, kafka)
    assert (found.through_spool, found.settings.catalog_url) == (False, "http://marquez:5000")
    alone = lineage_configuration("MyJob", settings, {}).settings
    assert alone.lineage.parent_job is None, "the listener's default parent is not used"


def test_lineage_is_switched_off_by_name(tmp_path: Path) -> None:
    settings: Settings = load(home=tmp_path, lineage={"disabled_jobs": ["nightly_*", "Exact"]})
    enabled = [
        name
        for name in ("nightly_x", "Exact", "exact", "daily")
        if settings.lineage_enabled_for(name)
    ]
    assert enabled == ["exact", "daily"]
    assert not load(home=tmp_path, lineage={"enabled": False}).lineage_enabled_for("daily")


def test_source_code_has_a_relative_path_and_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "jobs" / "spark" / "job.py"
    script.parent.mkdir(parents=True)
    script.touch()
    monkeypatch.chdir(tmp_path)
    assert relative_path(script) == "jobs/spark/job.py"
    assert commit_of(script) is None
    git = tmp_path / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    assert commit_of(script) is None
    (git / "packed-refs").write_text(f"# pack\n{'a' * 40} refs/heads/main\n")
    assert commit_of(script) == "a" * 40
    (git / "refs" / "heads" / "main").write_text(f"{'b' * 40}\n")
    assert commit_of(script) == "b" * 40
    (git / "HEAD").write_text("c" * 40)
    assert commit_of(script) == "c" * 40


def test_the_merge_key_must_be_a_column_name() -> None:
    with pytest.raises(InputError, match="not a column name to merge by: 'id; drop'"):
        MergeRule(key="id; drop", newest=("offset",))


def test_an_invalid_address_disables_lineage_and_does_not_fail_the_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = load(home=tmp_path, catalog={"url": "http://a..b:5000"})
    # The session is not used.
    spark: Any = SimpleNamespace(sparkContext=object())
    session._begin(spark, "MyJob", settings)
    assert session.current_application(spark) is None
    assert "lineage is disabled: MARQUEZ_URL has no usable host" in caplog.text
