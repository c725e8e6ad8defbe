"""Replay of archived records: exactly the selected ones, in order, once.

`selection`, `coverage`, `plan` and `manifest` are pure. `planning` makes a plan, without Spark
where offsets identify the records; `runner` executes it; `checking` compares the result with the
manifest."""

from headwater.replay.transform import Transform, load_transform

__all__ = ["Transform", "load_transform"]
