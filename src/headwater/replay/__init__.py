"""Replaying archived records: exactly those that were asked for, in order, once.

`selection`, `coverage`, `plan`, `digest` and `manifest` are pure; `planning` looks around and
makes a plan, without Spark where offsets tell all; `runner` runs it; `checking` holds it against
what is there."""

from headwater.replay.transform import Transform, load_logic

__all__ = ["Transform", "load_logic"]
