"""The first steps of every demo: jars, broker, Spark."""

from __future__ import annotations

from headwater.demo.story import Story
from headwater.jvm.jars import ensure_jars
from headwater.service import up
from headwater.spark.session import create_session

# One session for all demos: its connectors can't be changed later.
_CONNECTORS = ("kafka", "delta", "iceberg", "openlineage")


def start_broker(story: Story) -> None:
    """Start what the demo needs and what an earlier demo has not started."""
    settings = story.settings
    with story.step("Fetch the pinned jars") as step:
        jars = ensure_jars(("broker", *_CONNECTORS), settings, story.progress)
        step.result = f"{len(jars)} in {settings.jars_dir}"
    with story.step("Start a Kafka broker") as step:
        for state in up(["kafka"], settings, story.progress):
            step.result = f"{state.state} at {state.address}"
    with story.step("Start Spark"):
        create_session("headwater-demo", settings, connectors=_CONNECTORS, progress=story.progress)
