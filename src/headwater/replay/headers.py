"""The headers that a replayed record carries besides its lineage."""

from __future__ import annotations

# Which replay wrote it.
REPLAY_ID = "replay_id"
# How often what it was made from has been replayed, this time included: the loop guard.
REPLAY_COUNT = "replay_count"
