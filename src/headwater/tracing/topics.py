"""Topics that may not be there, such as dead letters."""

from __future__ import annotations

from headwater.errors import TopicNotFoundError
from headwater.kafka import end_offsets
from headwater.model import is_topic_name
from headwater.settings import Settings


def ends_if_there(topic: str, settings: Settings) -> dict[int, int]:
    """Where each partition of a topic ends; nothing for a topic that is not there."""
    try:
        return end_offsets(topic, settings.kafka) if is_topic_name(topic) else {}
    except TopicNotFoundError:
        return {}
