"""How every story begins: the jars, a broker, Spark."""

from __future__ import annotations

from headwater.demo.story import Story
from headwater.jvm.jars import ensure_jars
from headwater.service import up
from headwater.spark import create_session

# One session for all stories: its connectors can't be changed later.
_CONNECTORS = ("kafka", "delta", "iceberg", "openlineage")


def start_broker(story: Story) -> None:
    """Three steps, of which nothing is left to do when a story before has taken them."""
    settings = story.settings
    with story.step("Make sure that the pinned jars are there") as step:
        jars = ensure_jars(("broker", *_CONNECTORS), settings, story.progress)
        step.result = f"{len(jars)} in {settings.jars_dir}"
    with story.step("Start a Kafka broker") as step:
        for state in up(["kafka"], settings, story.progress):
            step.result = f"{state.state} at {state.address}"
    with story.step("Start Spark"):
        create_session("headwater-demo", settings, connectors=_CONNECTORS, progress=story.progress)
