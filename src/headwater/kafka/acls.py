"""The ACLs that commands and jobs need: one table for the docs, `headwater doctor` and the tests.

Names have placeholders: `INPUT` and `OUTPUT` are the topics of a job, `TOPIC` is the one of a
command. A name that ends with `*` is a prefix. Read and Write include Describe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headwater.kafka.errors import Access
from headwater.model.topic_names import (
    DEAD_LETTER_SUFFIX,
    HEARTBEAT_SUFFIX,
    LATE_SUFFIX,
    PARENTS_SUFFIX,
)

TOPIC, INPUT, OUTPUT, RUNS = "TOPIC", "INPUT", "OUTPUT", "RUNS"
DEAD_LETTER = OUTPUT + DEAD_LETTER_SUFFIX
LATE = OUTPUT + LATE_SUFFIX
PARENTS = OUTPUT + PARENTS_SUFFIX
HEARTBEAT = INPUT + HEARTBEAT_SUFFIX
# Groups and transactional ids of the sink: `headwater-QUERY-…`.
OWN_IDS = "headwater-*"


@dataclass(frozen=True, slots=True)
class Need:
    """The permissions of one command or job."""

    what: str
    grants: tuple[Access, ...]
    # When it applies.
    when: str = ""


def _topic(name: str, *operations: str) -> tuple[Access, ...]:
    return tuple(Access(operation, "topic", name) for operation in operations)


# Even to find that a topic does not exist, a client must be allowed to describe it.
_AROUND = (*_topic(DEAD_LETTER, "Read"), *_topic(LATE, "Describe"))
_COMPACT = f"`{LATE}` of joins: Read; `{RUNS}` of compact stamps: Read"

COMMANDS: tuple[Need, ...] = (
    Need("topics list", _topic(TOPIC, "Describe"), "lists the topics with this permission"),
    Need("topics describe", _topic(TOPIC, "Describe")),
    Need("topics create", _topic(TOPIC, "Create", "Describe")),
    Need("produce", _topic(TOPIC, "Write"), "a missing topic: Create, too"),
    Need("generate", _topic(TOPIC, "Write"), "a missing topic: Create, too"),
    Need("consume", _topic(TOPIC, "Read")),
    Need(
        "trace",
        (*_topic(INPUT, "Read"), *_topic(OUTPUT, "Read")),
        f"all topics back to the source; `{PARENTS}` of aggregates: Read",
    ),
    Need("verify", (*_topic(INPUT, "Read"), *_topic(OUTPUT, "Read"), *_AROUND), _COMPACT),
    Need(
        "why-missing",
        (*_topic(INPUT, "Read"), *_topic(OUTPUT, "Read"), *_AROUND, *_topic(PARENTS, "Describe")),
        f"{_COMPACT}; `{PARENTS}` of aggregates: Read",
    ),
    Need(
        "dead-letter list",
        (*_topic(DEAD_LETTER, "Read"), *_topic(INPUT, "Read", "DescribeConfigs")),
    ),
    Need(
        "dead-letter redrive",
        (
            *_topic(DEAD_LETTER, "Read"),
            *_topic(INPUT, "Read", "Write", "DescribeConfigs"),
        ),
    ),
    Need("archive status", _topic(TOPIC, "Describe")),
)

_READS = _topic(INPUT, "Read")
_WRITES = (
    *_topic(OUTPUT, "Write", "DescribeConfigs"),
    *_topic(DEAD_LETTER, "Write", "DescribeConfigs"),
)

JOBS: tuple[Need, ...] = (
    Need("idempotent", (*_READS, *_WRITES)),
    Need("batched", (*_READS, *_WRITES)),
    Need("individual", (*_READS, *_WRITES)),
    Need(
        "exactly-once",
        (*_READS, *_WRITES, *_topic(OUTPUT, "Read"), *_topic(DEAD_LETTER, "Read")),
        "reads what an interrupted batch has written",
    ),
    Need(
        "transactional",
        (
            *_READS,
            *_WRITES,
            *_topic(OUTPUT, "Read"),
            Access("Write", "transactional-id", OWN_IDS),
            Access("Read", "group", OWN_IDS),
        ),
        "the group has the number of the last batch, as an offset of the output",
    ),
)

FURTHER: tuple[Need, ...] = (
    Need(
        "topics that the job creates",
        _topic(OUTPUT, "Create") + _topic(DEAD_LETTER, "Create"),
        "`jobs.create_topics`, the default; also for those below",
    ),
    Need("aggregates", _topic(PARENTS, "Write", "DescribeConfigs")),
    Need("joins", (*_topic(LATE, "Write", "DescribeConfigs"), *_topic(HEARTBEAT, "Read", "Write"))),
    Need("compact stamps", _topic(RUNS, "Write"), '`jobs.stamp = "compact"`'),
    Need("jobs that write to tables, archives and the index", _READS),
    Need("replay into a topic", (*_WRITES, *_topic(OUTPUT, "Read")), "as the delivery mode"),
)


def need_of(what: str) -> Need:
    """The row of a command or a delivery mode."""
    return next(need for need in (*COMMANDS, *JOBS, *FURTHER) if need.what == what)


def granted(needs: Iterable[Need], names: Mapping[str, str]) -> Iterator[Access]:
    """The permissions of all, each once, with the placeholders replaced."""
    seen = set()
    for need in needs:
        for grant in need.grants:
            name = grant.name
            for placeholder, value in names.items():
                if name.startswith(placeholder):
                    name = value + name[len(placeholder) :]
                    break
            access = Access(grant.operation, grant.resource, name)
            if access not in seen:
                seen.add(access)
                yield access
