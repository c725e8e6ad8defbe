"""The lakehouse demo does not accept older runs."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from headwater.demo import Story, lakehouse
from headwater.jobs.articles import TABLE
from headwater.model.progress import no_progress
from headwater.settings import Settings


@pytest.mark.parametrize(("before", "passes"), [(None, True), ("run-0", True), ("run-1", False)])
def test_a_run_of_an_earlier_demo_does_not_pass_the_check(
    headwater_settings: Settings, before: str | None, passes: bool
) -> None:
    table = TABLE.value(None, headwater_settings)
    run = {"id": "run-1", "state": "COMPLETED"}

    class Catalog:
        def get(self, path: str) -> Any:
            return {"type": "BATCH", "latestRun": run, "outputs": [{"name": table}]}

    catalog: Any = Catalog()
    story = Story(headwater_settings, Console(file=io.StringIO()), no_progress)
    assert lakehouse._latest_run(story, catalog, "Job") == "run-1"
    lakehouse._check_job(story, catalog, "Job", "BATCH", before)
    assert (story.failed == []) == passes
