"""Lineage changes nothing in the program of its user: no setting, no hook, no row."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import host_program
from tests.lineage_events import names, spooled, states
from tests.lines.environments import needs_iceberg
from tests.support import java_of_spark

from headwater.collector.configuration import LISTENER
from headwater.jvm.jars import ensure_jars
from headwater.settings import Settings, child_environment, load
from headwater.spark.configuration import LINEAGE_PLUGIN

pytestmark = [pytest.mark.spark, needs_iceberg]

ICEBERG = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
DELTA = "io.delta.sql.DeltaSparkSessionExtension"
OWN_LISTENER = "org.apache.spark.scheduler.StatsReportListener"
# Different for each start; the URLs contain a port.
VOLATILE = {
    "spark.app.id",
    "spark.app.initial.jar.urls",
    "spark.app.startTime",
    "spark.app.submitTime",
    "spark.driver.port",
}
# All that a batch job with lineage has in addition.
LINEAGE = {
    "spark.extraListeners": f"{OWN_LISTENER},{LISTENER}",
    "spark.plugins": LINEAGE_PLUGIN,
    "spark.openlineage.transport.type": "http",
    "spark.openlineage.transport.url": "http://127.0.0.1:9",
    "spark.openlineage.namespace": "default",
    "spark.openlineage.parentJobName": host_program.NAME,
    "spark.openlineage.vendors.iceberg.metricsReporterDisabled": "true",
}


class Host:
    """Runs the user's program with the user's `spark-defaults.conf`."""

    def __init__(self, folder: Path, jars: list[Path]) -> None:
        self.folder = folder
        self.settings = load(home=folder / "home")
        self.conf = {
            "spark.master": "local[2]",
            "spark.jars": ",".join(f"file://{jar}" for jar in jars),
            "spark.sql.session.timeZone": "America/New_York",
            "spark.extraListeners": OWN_LISTENER,
            "spark.sql.extensions": ICEBERG,
            "spark.sql.catalog.spark_catalog": "org.apache.iceberg.spark.SparkSessionCatalog",
            "spark.sql.catalog.spark_catalog.type": "hadoop",
            "spark.sql.catalog.spark_catalog.warehouse": f"file://{folder}/session-warehouse",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.driver.extraJavaOptions": "-Down.option=1",
            "spark.sql.adaptive.enabled": "false",
            "spark.log.level": "ERROR",
        }

    def run(self, kind: str, mode: str) -> dict[str, Any]:
        folder = self.folder / f"{kind}-{mode}"
        folder.mkdir()
        # The same for both, except for the place of the results.
        warehouse = {"spark.sql.catalog.lake.warehouse": f"file://{folder}/warehouse"}
        lines = [f"{key} {value}" for key, value in {**self.conf, **warehouse}.items()]
        (folder / "spark-defaults.conf").write_text("\n".join(lines))
        done = subprocess.run(
            [sys.executable, host_program.__file__, kind, mode, str(folder)],
            capture_output=True,
            text=True,
            timeout=170,
            check=False,
            cwd=self.folder,
            env=child_environment(
                SPARK_CONF_DIR=str(folder),
                HEADWATER_HOME=str(self.settings.home_dir),
                MARQUEZ_URL="http://127.0.0.1:9",
                # A zone of the machine that is not the session's.
                TZ="Asia/Kathmandu",
                **java_of_spark(self.settings),
            ),
        )
        assert done.returncode == 0, done.stderr
        text = done.stdout.strip().splitlines()[-1].replace(str(folder), "FOLDER")
        return dict(json.loads(text))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, headwater_settings: Settings) -> Host:
    return Host(tmp_path_factory.mktemp("host"), ensure_jars(["iceberg"], headwater_settings))


@pytest.fixture(scope="module")
def plain_batch(host: Host) -> dict[str, Any]:
    """The batch job without Headwater."""
    return host.run("batch", "plain")


def differences(plain: dict[str, Any], other: dict[str, Any]) -> dict[str, dict[str, str | None]]:
    """The settings that differ: the value with Headwater, None if it is missing."""
    found = {}
    for part, values in plain.items():
        keys = {*values, *other[part]} - VOLATILE
        found[part] = {
            key: other[part].get(key) for key in keys if values.get(key) != other[part].get(key)
        }
    return found


def test_a_batch_job_with_lineage_has_the_same_settings_hooks_and_rows(
    host: Host, plain_batch: dict[str, Any]
) -> None:
    plain = plain_batch
    with_lineage = host.run("batch", "lineage")
    assert plain["rows"], plain
    assert with_lineage["rows"] == plain["rows"]
    assert differences(plain["settings"], with_lineage["settings"]) == {
        "context": LINEAGE,
        "session": LINEAGE,
    }
    assert with_lineage["settings at the end"] == with_lineage["settings"]
    for moment in ("own stop", "while it runs", "after it", "at exit"):
        assert with_lineage[moment] == plain[moment], moment
    # By Spark itself, which also sets variables for its Python workers.
    changed = [name for name in plain["at exit"] if not name.startswith("$")]
    assert changed == ["sys.path", f"signal {signal.SIGINT:d}"]
    events = [each for each in spooled(host.settings, host_program.NAME) if each["outputs"]]
    assert states(events)[-1] == "COMPLETE"
    assert "lake.own.days" in names(events[-1], "outputs")


def test_connectors_are_added_without_replacing_what_the_user_has_set(
    host: Host, plain_batch: dict[str, Any]
) -> None:
    with_connectors = host.run("batch", "connectors")
    assert with_connectors["rows"] == plain_batch["rows"]
    home = host.settings.home_dir
    added = {
        **LINEAGE,
        "spark.sql.extensions": f"{ICEBERG},{DELTA}",
        "spark.sql.catalog.demo": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.demo.type": "hadoop",
        "spark.sql.catalog.demo.cache-enabled": "false",
        "spark.sql.catalog.demo.warehouse": f"file://{home}/warehouse",
        "spark.sql.redaction.options.regex": "(?i)url|jaas|keystore[.]key",
    }
    found = differences(plain_batch["settings"], with_connectors["settings"])
    assert found == {"context": added, "session": added}


def test_a_tracked_streaming_job_has_the_same_settings_hooks_and_rows(host: Host) -> None:
    plain = host.run("stream", "plain")
    tracked = host.run("stream", "lineage")
    assert len(plain["rows"]) == len(host_program.TIMES)
    assert tracked["rows"] == plain["rows"]
    for moment in ("settings", "settings at the end"):
        assert differences(plain[moment], tracked[moment]) == {"context": {}, "session": {}}
    batches = [{"batch": each["settings of a batch"]} for each in (plain, tracked)]
    assert differences(*batches) == {"batch": {}}
    for moment in ("while it runs", "after it", "at exit"):
        assert tracked[moment] == plain[moment], moment
    assert states(spooled(host.settings, host_program.NAME))[-1] == "COMPLETE"
