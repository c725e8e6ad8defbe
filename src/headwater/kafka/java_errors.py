"""How errors of Kafka's Java clients, of which Spark reports the text, become Headwater's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headwater.errors import HeadwaterError
from headwater.kafka.error_kinds import AUTHORIZATION, kind_of_java
from headwater.kafka.errors import Access

# In a stack trace: class and message.
_THROWN = re.compile(
    r"org\.apache\.kafka\.common\.(?:errors\.)?(?P<name>\w+Exception)(?:: (?P<message>[^\n]*))?"
)
# The sink's own exception, which names the record and the simple class of the cause.
_NOT_DELIVERED = re.compile(r"dev\.headwater\.delivery\.DeliveryFailedException: (?P<text>[^\n]*)")
_OUTPUT_TOPIC = re.compile(
    r"^(?:the record for topic (?P<record>\S+) made from|"
    r"task \d+ of batch \d+ of topic (?P<task>\S+) was not committed)"
)
# The client has no class for an error in some responses, only its text.
_UNTYPED = re.compile(r"^Unexpected error in \w+: (\w[\w ]*) authorization failed\.")
_TOPICS = re.compile(r"topics: \[([^\],\s]+)")
_GROUP = re.compile(r"(?:group: |idValue=')([^\s']+)")
# Ids that differ from run to run are granted by their prefix.
_ID_PREFIXES = ("headwater-", "spark-kafka-source-")


def from_java_error(text: str, properties: Mapping[str, str]) -> HeadwaterError | None:
    """The Headwater error for the stack trace of a failed task or query.

    The innermost exception of Kafka decides its type; the message has all of them in one line, the
    one of the sink first.

    Args:
        properties: of Spark's Kafka clients, for the principal.

    Returns:
        None if the text has no exception of Kafka with a known meaning.
    """
    thrown = [
        (match["name"], match["message"] or "", kind)
        for match in _THROWN.finditer(text)
        if (kind := kind_of_java(_class_of(match["name"], match["message"] or ""))) is not None
    ]
    if not thrown:
        return None
    name, message, kind = thrown[-1]
    delivery = _NOT_DELIVERED.search(text)
    parts = [delivery["text"].strip()] if delivery else []
    for each, why, _ in thrown:
        part = f"{each}: {why}".rstrip(": ")
        if not any(part in earlier for earlier in parts):
            parts.append(part)
    hint = kind.hint
    if kind is AUTHORIZATION:
        hint = _access(name, message, parts[0]).hint(properties)
    return kind.error(": ".join(parts), hint=hint, exception=name)


def _class_of(name: str, message: str) -> str:
    untyped = _UNTYPED.match(message)
    return f"{untyped[1].title().replace(' ', '')}AuthorizationException" if untyped else name


def _access(name: str, message: str, first: str) -> Access:
    output = _OUTPUT_TOPIC.match(first)
    name = _class_of(name, message)
    if name == "TransactionalIdAuthorizationException":
        return Access("Write", "transactional-id", f"{_ID_PREFIXES[0]}*")
    if name == "GroupAuthorizationException":
        group = _GROUP.search(message)
        return Access("Read", "group", _by_prefix(group[1]) if group else "NAME")
    if output:
        # A transaction commits an offset of its output topic, too. Write includes the right to use
        # an idempotent producer.
        operation = "Read" if "TxnOffsetCommit" in message else "Write"
        return Access(operation, "topic", output["record"] or output["task"])
    if name == "ClusterAuthorizationException":
        return Access("Describe", "cluster")
    topic = _TOPICS.search(message)
    return Access("Read", "topic", topic[1] if topic else "NAME")


def _by_prefix(name: str) -> str:
    return next((f"{each}*" for each in _ID_PREFIXES if name.startswith(each)), name)
