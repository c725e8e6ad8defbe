"""The first steps of every demo: jars, broker, Spark."""

from __future__ import annotations

from headwater.demo.story import Story
from headwater.jvm.installed import installed_line
from headwater.jvm.jars import ensure_jars
from headwater.service import up
from headwater.settings import Settings
from headwater.spark.session import create_session

# One session for all demos: its connectors can't be changed later.
_CONNECTORS = ("kafka", "delta", "iceberg", "openlineage")


def missing_connectors(settings: Settings) -> dict[str, str]:
    """The connectors of the demos that the Spark that is there does not have, with the reason.

    Raises:
        NotInstalledError: there is no Spark.
        UnsupportedVersionError: it is not supported.
    """
    missing = installed_line(settings).missing
    return {name: missing[name] for name in _CONNECTORS if name in missing}


def start_broker(story: Story) -> None:
    """Start what the demo needs and what an earlier demo has not started."""
    settings = story.settings
    missing = missing_connectors(settings)
    connectors = [name for name in _CONNECTORS if name not in missing]
    with story.step("Fetch the pinned jars") as step:
        jars = ensure_jars(("broker", *connectors), settings, story.progress)
        step.result = f"{len(jars)} in {settings.jars_dir}"
    with story.step("Start a Kafka broker") as step:
        for state in up(["kafka"], settings, story.progress):
            step.result = f"{state.state} at {state.address}"
    with story.step("Start Spark"):
        create_session("headwater-demo", settings, connectors=connectors, progress=story.progress)
