"""Demos on the real stack that show what Headwater does, and check it."""

from collections.abc import Callable, Mapping

from headwater.demo import fifo, joiner, lakehouse, reprocessor, tracker, unchanged
from headwater.demo.stack import missing_connectors
from headwater.demo.story import Story

# In the order in which they run if no name is given.
STORIES: Mapping[str, Callable[[Story], None]] = {
    "unchanged": unchanged.run,
    "tracker": tracker.run,
    "joiner": joiner.run,
    "fifo": fifo.run,
    "reprocessor": reprocessor.run,
    "lakehouse": lakehouse.run,
}

# Demos that need a connector which some versions of Spark do not have.
NEEDED_CONNECTORS: Mapping[str, str] = {"reprocessor": "delta", "lakehouse": "iceberg"}

__all__ = ["NEEDED_CONNECTORS", "STORIES", "Story", "missing_connectors"]
