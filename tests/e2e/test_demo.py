"""The demo as a user runs it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support import Headwater

from headwater.cli import demo as demo_command
from headwater.cli.app import headwater as root
from headwater.demo import Story
from headwater.errors import NotInstalledError
from headwater.kafka import RecordProducer
from headwater.service.catalog import CatalogServer
from headwater.settings import Settings


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(800)
def test_the_demo_passes_its_own_checks_twice_on_the_same_broker(
    broker: Settings, headwater: Headwater
) -> None:
    try:
        # The second time the two fastest of those that print existing records.
        for names in ([], ["reprocessor", "tracker"]):
            done = headwater("demo", *names, timeout=480 if not names else 300)
            assert done.returncode == 0, done.stdout + done.stderr
            assert re.search(r"All \d+ checks passed", done.stdout)
            assert "warning:" not in done.stderr
            assert "job_name:visits_reducer" in done.stdout
            assert '["{job_version, v1.0.0}","{job_name, visits_decorator}"' in done.stdout
            if not names:
                assert (
                    "visits_by_page.sql names all visits of its page, and no others" in done.stdout
                )
                for output in ("visits-individual-send", "visits-batched", "visits-idempotent"):
                    assert re.search(rf"\d+ records in `{output}`", done.stdout)
                assert len(re.findall(r"CreateTime:\d{13}  Partition:[01]  ", done.stdout)) == 12
            assert re.search(
                r"`visits_converter_reprocessing_job \d+ \d+`: 3 records more", done.stdout
            )
            assert ("visit-2 can have no ad any more" in done.stdout) == (not names)
            # Records of other producers must not disturb the next run.
            with RecordProducer(broker.kafka) as producer:
                producer.send("visits", b"another producer", b"x")
                producer.send("clicks", b"another producer", b"x")
    finally:
        # Other tests check what is spooled while the catalog can't be reached.
        CatalogServer(broker).stop()


def test_a_failing_check_makes_the_demo_fail(
    headwater_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(story: Story) -> None:
        story.check("one is one", True)
        story.check("one is two", False, "it is not")

    monkeypatch.setattr(demo_command, "STORIES", {"tracker": run})
    monkeypatch.setenv("HEADWATER_HOME", str(headwater_settings.home_dir))
    # Click caches the help option on the command: use the root's names, as users have them.
    names = root.context_settings["help_option_names"]
    result = CliRunner().invoke(demo_command.demo, [], obj={}, help_option_names=names)
    assert result.exit_code == 1
    assert "1 of 2 checks failed" in result.output
    assert "it is not" in result.output


@pytest.fixture
def spark_without_iceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demos `tracker` and `lakehouse`, each with one check, and a Spark of the newest line."""
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark-core_2.13-4.3.0.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(jars.parent))
    monkeypatch.setenv("HEADWATER_HOME", str(tmp_path / "home"))
    names = ("tracker", "lakehouse")
    stories = {name: lambda story, name=name: story.check(f"{name} ran", True) for name in names}
    monkeypatch.setattr(demo_command, "STORIES", stories)


@pytest.mark.usefixtures("spark_without_iceberg")
def test_a_demo_whose_connector_is_missing_for_this_spark_is_skipped_with_the_reason() -> None:
    result = CliRunner().invoke(root, ["demo"])
    assert result.exit_code == 0, result.output
    assert "All 1 checks passed" in result.output
    assert "skipping lakehouse: no Iceberg runtime" in result.output


@pytest.mark.usefixtures("spark_without_iceberg")
def test_a_named_demo_whose_connector_is_missing_for_this_spark_is_refused() -> None:
    result = CliRunner().invoke(root, ["demo", "tracker", "lakehouse"])
    assert result.exit_code != 0
    assert "tracker ran" not in result.output
    assert isinstance(result.exception, NotInstalledError | SystemExit)
    assert "'iceberg'" in (result.output + str(result.exception))
