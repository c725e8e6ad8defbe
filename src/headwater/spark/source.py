"""Topics as streams of rows, and lineage as a Spark column, computed by expressions in the JVM.

A DataFrame with lineage has a column `lineage`: a struct with the addresses of the parents and
the headers of the parent. `with_lineage` adds it to a Kafka source, `merge_lineage` and
`join_lineage` combine it, and the sink turns it into the headers of an output record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.errors import InputError, UnsafeDeliveryError
from headwater.model.header import (
    MAX_LISTED_PARENTS,
    MAX_PARENTS_BYTES,
    MORE_PARENTS,
    RANGE_MARK,
)
from headwater.settings import Settings, is_secured
from headwater.settings.kafka_security import java_properties
from headwater.spark.connection_check import check_connection
from headwater.spark.session import own_class, refuse_connect

LINEAGE_COLUMN = "lineage"
HEADERS_TYPE = "array<struct<key:string,value:binary>>"


def with_lineage(records: DataFrame) -> DataFrame:
    """Rows of a Kafka source with the record itself as the parent of its outputs.

    Only plain columns and literals, so that Spark optimizes the struct away.
    """
    parts = (F.col(name) for name in ("topic", "partition", "offset", "headers"))
    return records.withColumn(LINEAGE_COLUMN, parent_lineage(*parts))


def parent_lineage(topic: Column, partition: Column, offset: Column, headers: Column) -> Column:
    """The lineage of outputs of one record, from its address and headers."""
    return _lineage(topic=topic, partition=partition, offset=offset, headers=headers)


def join_lineage(left: Column, right: Column) -> Column:
    """The lineage of a joined row: the parents of the left side, then those of the right."""
    hidden = F.concat_ws(",", left["all_parents_hash"], right["all_parents_hash"])
    parents = F.concat_ws(",", parents_text(left), parents_text(right))
    rest = F.concat_ws(",", left["rest"], right["rest"])
    return _lineage(
        parents=parents,
        unlisted=F.coalesce(left["unlisted"], F.lit(0)) + F.coalesce(right["unlisted"], F.lit(0)),
        all_parents_hash=F.when(hidden != "", F.sha2(F.concat_ws(",", parents, hidden), 256)),
        rest=F.when(rest != "", rest),
    )


def bounded_lineage(lineage: Column) -> Column:
    """A lineage whose header can be read: joins of aggregated rows may list any number of parents,
    of which the first ones remain listed."""
    parents = lineage["parents"]
    listed = F.substring_index(parents, ",", MAX_LISTED_PARENTS)
    others = parents.substr(F.length(listed) + 2, F.length(parents))
    commas = F.length(others) - F.length(F.replace(others, F.lit(","), F.lit("")))
    shortened = _lineage(
        parents=listed,
        unlisted=lineage["unlisted"] + commas + 1,
        all_parents_hash=F.sha2(F.concat_ws(",", parents, lineage["all_parents_hash"]), 256),
        rest=F.concat_ws(",", others, lineage["rest"]),
    )
    return F.when(F.length(parents) > MAX_PARENTS_BYTES, shortened).otherwise(lineage)


def merge_lineage(lineage: Column, max_listed: int = MAX_LISTED_PARENTS) -> Column:
    """The lineage of an aggregated row, as an aggregate: all parents, listed up to a limit.

    The others are listed by records in the topic `<output>-parents`. Sorted, so that the same
    group has the same text for any order of its rows. The state of a streaming query has one to
    four bytes for each parent.

    Raises:
        InputError: the column is of Spark Connect.
        NotInstalledError: Headwater's jar is not on Spark's class path.
    """
    refuse_connect(lineage)
    java: Any = lineage._jc  # noqa: SLF001
    return Column(own_class("rowlineage.MergeParents").column(java, max_listed))


def parent_addresses(lineage: Column) -> Column:
    """The addresses of all parents as an array of texts, for functions in Python that make one row
    of several; `lineage_of` is the reverse."""
    return F.split(_all_parents_text(lineage), ",")


def lineage_of(addresses: Column, max_listed: int = MAX_LISTED_PARENTS) -> Column:
    """The lineage of a row with these parents, an array of addresses such as `visits/0@17`.

    They are sorted, so that the same parents have the same text.
    """
    parents = F.array_sort(F.array_distinct(addresses))
    count = F.size(parents)
    listed = F.lit(max_listed)
    if max_listed > MAX_LISTED_PARENTS:
        # The default number fits into a header whatever the names of the topics.
        too_long = F.length(F.array_join(F.slice(parents, 1, max_listed), ",")) > MAX_PARENTS_BYTES
        listed = F.when(too_long, MAX_LISTED_PARENTS).otherwise(max_listed)
    more = count > listed
    return _lineage(
        parents=F.array_join(F.slice(parents, F.lit(1), listed), ","),
        unlisted=F.greatest(count - listed, F.lit(0)).cast("bigint"),
        all_parents_hash=F.when(more, F.sha2(F.array_join(parents, ","), 256)),
        rest=F.when(more, F.array_join(F.slice(parents, listed + 1, count), ",")),
    )


def _all_parents_text(lineage: Column) -> Column:
    return F.concat_ws(",", parents_text(lineage), lineage["rest"])


def parents_text(lineage: Column) -> Column:
    """The addresses of the parents, separated by commas."""
    single = address_text(lineage["topic"], lineage["partition"], lineage["offset"])
    return F.coalesce(lineage["parents"], single)


def address_text(topic: Column, partition: Column, offset: Column) -> Column:
    """The address of a record: `topic/partition@offset`."""
    return F.concat(topic, F.lit("/"), partition.cast("string"), F.lit("@"), offset.cast("string"))


def _lineage(**values: Column) -> Column:
    """The struct; it has either one parent as topic, partition and offset, or several as text."""
    fields = {
        "topic": F.lit(None).cast("string"),
        "partition": F.lit(None).cast("int"),
        "offset": F.lit(None).cast("bigint"),
        "parents": F.lit(None).cast("string"),
        "unlisted": F.lit(0).cast("bigint"),
        "all_parents_hash": F.lit(None).cast("string"),
        "headers": F.lit(None).cast(HEADERS_TYPE),
        "rest": F.lit(None).cast("string"),
        **values,
    }
    return F.struct(*(column.alias(name) for name, column in fields.items()))


def lineage_identity(lineage: Column, job_name: str, ordinal: Column) -> Column:
    """The part of the `lineage` header that is the same in every run that creates the record; null
    if the parents are not known exactly, as other records may have the same ranges.

    The sink writes the header; this finds the records that it has written.
    """
    parents = F.coalesce(parents_text(lineage), F.lit("-"))
    listed = F.coalesce(lineage["unlisted"], F.lit(0)) == 0
    text = F.when(listed, parents).otherwise(
        F.concat(parents, F.lit(",+"), lineage["unlisted"].cast("string"))
    )
    ordinal = F.coalesce(ordinal, F.lit(0))
    suffix = F.when(ordinal == 0, F.lit("")).otherwise(
        F.concat(F.lit(" #"), ordinal.cast("string"))
    )
    text = F.concat(text, suffix)
    hashed = F.concat_ws(
        "\0",
        F.lit(job_name),
        lineage["all_parents_hash"],
        ordinal.cast("string"),
    )
    identity = F.when(lineage["all_parents_hash"].isNull(), text).otherwise(
        F.concat(text, F.lit(" ="), F.substring(F.sha2(hashed, 256), 1, 32))
    )
    return F.when(has_exact_parents(lineage), identity)


def has_exact_parents(lineage: Column) -> Column:
    """Whether all parents are known: neither ranges nor unknown ones."""
    items = F.concat_ws(",", lineage["parents"], lineage["rest"])
    return ~(items.contains(RANGE_MARK) | items.contains(MORE_PARENTS))


# The options that select the topics of a source.
_SELECTIONS = {each.lower(): each for each in ("subscribe", "subscribePattern", "assign")}

# Measured on 400-byte records: with Spark's defaults the fetches are so small that the source is
# the bottleneck. 8 MB per partition avoids that without using much memory.
FETCH = {
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "kafka.fetch.max.bytes": str(64 * 1024 * 1024),
    "kafka.max.poll.records": "5000",
}


def with_brokers(settings: Settings, bootstrap_servers: str | None) -> Settings:
    """The settings with these brokers, for reading and writing alike; None keeps them."""
    if bootstrap_servers is None:
        return settings
    kafka = settings.kafka.model_copy(update={"bootstrap_servers": bootstrap_servers})
    return settings.model_copy(update={"kafka": kafka})


def client_options(settings: Settings) -> dict[str, str]:
    """The properties of Spark's Kafka clients: the user's, and the security of all clients."""
    return {f"kafka.{name}": value for name, value in client_properties(settings).items()}


def client_properties(settings: Settings) -> dict[str, str]:
    """As `client_options`, with the names of Java's clients."""
    options = settings.spark.kafka_options
    secured = is_secured(settings.kafka) or options
    return java_properties(settings.kafka, options) if secured else {}


# Properties of the producer that a delivery mode sets, and what another value would do.
_GUARDED = {
    "acks": "a record that only the leader has is lost with it",
    "enable.idempotence": "a retry may write a record twice",
    "max.in.flight.requests.per.connection": "a retry may write a record twice or out of order",
}
# Values that break every mode; None stands for all values.
_Unsafe = Mapping[str, tuple[str | None, str]]
_UNSAFE: _Unsafe = {
    "transactional.id": (None, "the sink names its own transactions"),
    "retries": ("0", "a request that fails once ends the job"),
    "delivery.timeout.ms": ("0", "a request that fails once ends the job"),
    "partitioner.ignore.keys": ("true", "records of one key would not be in order"),
    "partitioner.class": (
        None,
        "records of one key may not be in order; a column `partition` chooses the partition",
    ),
}
# Values that break one mode.
_UNSAFE_IN: Mapping[str, _Unsafe] = {
    "exactly-once": {
        "interceptor.classes": (None, "they may change the headers that identify written records"),
    },
}


def refuse_unsafe_properties(mode: str, options: Mapping[str, str], settings: Settings) -> None:
    """Refuse properties of the setting `spark.kafka_options` that undo a delivery mode's guarantee.

    Args:
        options: of the mode's sink.

    Raises:
        UnsafeDeliveryError: names the property and its value.
    """
    unsafe_values = {**_UNSAFE, **_UNSAFE_IN.get(mode, {})}
    for given_name, value in settings.spark.kafka_options.items():
        # The names of Spark's options are case-insensitive.
        name = given_name.strip().lower()
        given, expected = value.strip().lower(), options.get(f"kafka.{name}")
        if name in _GUARDED and expected is not None:
            safe = given == expected or {given, expected} == {"all", "-1"}
            why = _GUARDED[name]
        else:
            unsafe, why = unsafe_values.get(name, ("", ""))
            safe = name not in unsafe_values or unsafe not in (None, given)
        if not safe:
            raise UnsafeDeliveryError(
                f"{mode} delivery can't be guaranteed with {given_name}={value}: {why}",
                hint=f"remove {given_name} from HEADWATER_SPARK__KAFKA_OPTIONS"
                + (f"; the mode sets {name}={expected}" if expected else ""),
                setting=given_name,
                value=value,
            )


def check_source(
    topics: Sequence[str], settings: Settings, options: Mapping[str, str | float | bool]
) -> None:
    """Refuse options of a stream before anything is started.

    Raises:
        InputError: no topics, topics twice, or an option that would lose the lineage.
    """
    given = {name: _text(value) for name, value in options.items()}
    names = {name.lower(): name for name in given}
    selections = [names[name] for name in _SELECTIONS if name in names]
    if len(selections) + bool(topics) != 1:
        both = [*(["topics"] if topics else []), *selections]
        raise InputError(
            f"a stream needs either topics or one of {', '.join(_SELECTIONS.values())}; given: "
            f"{', '.join(both) or 'nothing'}"
        )
    if given.get(names.get("includeheaders", ""), "true").lower() != "true":
        raise InputError("includeHeaders=false would lose the headers of the records")
    _refuse_other_isolation({**client_options(settings), **given})


def read_stream(
    spark: SparkSession,
    topics: Sequence[str],
    settings: Settings,
    *,
    starting_offsets: str = "earliest",
    options: Mapping[str, str | float | bool],
) -> DataFrame:
    """Read topics as rows `key, value, topic, partition, offset, timestamp, headers`.

    The query fails if offsets are no longer available. With `failOnDataLoss=False` it continues
    after them: Spark logs a warning, and only the job of the archive reports the lost offsets.

    Args:
        topics: none if `options`, which are those of Spark's Kafka source, name them.

    Raises:
        InputError: no topics, topics twice, or an option that would lose the lineage.
    """
    check_source(topics, settings, options)
    given = {name: _text(value) for name, value in options.items()}
    names = {name.lower(): name for name in given}
    source_options = {
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        "includeHeaders": "true",
        # Records of aborted or open transactions do not count.
        "kafka.isolation.level": "read_committed",
        "startingOffsets": starting_offsets,
        "failOnDataLoss": "true",
        **({"subscribe": ",".join(topics)} if topics else {}),
        **FETCH,
        **client_options(settings),
    }
    # Spark's options are case-insensitive; one that is given twice would be ambiguous.
    kept = {name: value for name, value in source_options.items() if name.lower() not in names}
    connect_once({**kept, **given}, settings)
    return spark.readStream.format("kafka").options(**kept, **given).load()


def connect_once(options: Mapping[str, str], settings: Settings) -> None:
    """Connect with the security of these options of a source or sink, before the query starts.

    Without security there is nothing to check: the Python client has connected in the same way.

    Raises:
        AuthenticationError: the cluster does not accept the client.
        BrokerUnavailableError: no response within `kafka.timeout_seconds`.
    """
    if any(name.lower() == "kafka.security.protocol" for name in options):
        check_connection(options, settings)


def _refuse_other_isolation(options: Mapping[str, str]) -> None:
    for name, value in options.items():
        if name.lower() == "kafka.isolation.level" and value != "read_committed":
            raise UnsafeDeliveryError(
                f"isolation.level={value}: a job would process records of aborted transactions",
                hint="remove it from the options of the source and from "
                "HEADWATER_SPARK__KAFKA_OPTIONS; read_committed is set",
                setting="isolation.level",
                value=value,
            )


def _text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
