"""Valid names of topics, and names of the topics that belong to a job's output topic."""

from __future__ import annotations

import re

# Kafka's rule: ASCII letters, digits, dot, underscore, dash; at most 249.
TOPIC_NAME = r"[a-zA-Z0-9._-]{1,249}"
_TOPIC_NAME = re.compile(TOPIC_NAME)

DEAD_LETTER_SUFFIX = "-dead-letter"
LATE_SUFFIX = "-late"
PARENTS_SUFFIX = "-parents"
HEARTBEAT_SUFFIX = "-heartbeat"


def is_topic_name(text: str) -> bool:
    """Whether Kafka accepts `text` as a topic name."""
    return _TOPIC_NAME.fullmatch(text) is not None and text not in {".", ".."}


def dead_letter_topic(topic: str) -> str:
    """The topic for records of `topic`'s job that could not be processed."""
    return topic + DEAD_LETTER_SUFFIX


def is_dead_letter_topic(topic: str) -> bool:
    """Whether a topic is a dead letter topic, by its name."""
    return topic.endswith(DEAD_LETTER_SUFFIX)


def late_topic(topic: str) -> str:
    """The topic for records of `topic`'s job that arrived after the watermark."""
    return topic + LATE_SUFFIX


def parents_topic(topic: str) -> str:
    """The topic that lists parents which do not fit into the headers of aggregated records."""
    return topic + PARENTS_SUFFIX


def heartbeat_topic(topic: str) -> str:
    """The topic of heartbeats, by which a join advances the watermark of an idle input."""
    return topic + HEARTBEAT_SUFFIX
