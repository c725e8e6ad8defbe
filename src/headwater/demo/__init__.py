"""Stories on the real stack that show what Headwater does, and check it."""

from collections.abc import Callable, Mapping

from headwater.demo import fifo, joiner, lakehouse, reprocessor, tracker
from headwater.demo.story import Story

# In the order in which they are told when no name is given.
STORIES: Mapping[str, Callable[[Story], None]] = {
    "tracker": tracker.tell,
    "joiner": joiner.tell,
    "fifo": fifo.tell,
    "reprocessor": reprocessor.tell,
    "lakehouse": lakehouse.tell,
}

__all__ = ["STORIES", "Story"]
