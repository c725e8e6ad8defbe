"""The lakehouse demo is satisfied with what its own jobs have told, and with nothing older."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from headwater.demo import Story, lakehouse
from headwater.model.progress import no_progress
from headwater.settings import Settings


@pytest.mark.parametrize(
    ("before", "passes"), [(None, True), ("run-of-today", True), ("run-1", False)]
)
def test_a_run_of_an_earlier_telling_is_not_taken_for_this_one(
    headwater_settings: Settings, before: str | None, passes: bool
) -> None:
    table = headwater_settings.articles.table
    run = {"id": "run-1", "state": "COMPLETED"}

    class Catalog:
        def get(self, path: str) -> Any:
            return {"type": "BATCH", "latestRun": run, "outputs": [{"name": table}]}

    catalog: Any = Catalog()
    story = Story(headwater_settings, Console(file=io.StringIO()), no_progress)
    assert lakehouse._latest_run(story, catalog, "Job") == "run-1"
    lakehouse._check_job(story, catalog, "Job", "BATCH", before)
    assert (story.failed == []) == passes
