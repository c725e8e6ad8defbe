"""Lineage as Spark columns: all work on rows is done by expressions inside the JVM.

A DataFrame with lineage has a column `lineage`: a struct of the parents' addresses as text and
the parent's headers. `with_lineage` makes it from a Kafka source, `merge_lineage` and
`join_lineage` combine it, `record_headers` turns it into the headers of an output record.

The expressions are chosen for speed: literals and concatenation. Higher-order functions are
interpreted by Spark, so they stand only in branches that few records take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.rowlineage.codec import MAX_LISTED_PARENTS, VERSION
from headwater.rowlineage.headers import (
    BATCH_VERSION,
    JOB_NAME,
    JOB_VERSION,
    LINEAGE,
    OWN_HEADERS,
    PARENT_LINEAGE,
    STAMP_HEADERS,
)

LINEAGE_COLUMN = "lineage"
HEADERS_TYPE = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True)
class Writer:
    """Who writes: what goes into the headers of every record of a query."""

    job_name: str
    job_version: str
    run_id: str
    # The header order of the job; the seed's two jobs differ in it.
    order: Sequence[str] = (JOB_NAME, JOB_VERSION, BATCH_VERSION)


def with_lineage(records: DataFrame) -> DataFrame:
    """Rows of a Kafka source, each with itself as the one parent of what is made from it.

    Only plain columns and literals: Spark then takes the struct apart again and never builds it.
    """
    return records.withColumn(
        LINEAGE_COLUMN,
        _lineage(
            topic=F.col("topic"),
            partition=F.col("partition"),
            offset=F.col("offset"),
            headers=F.col("headers"),
        ),
    )


def join_lineage(left: Column, right: Column) -> Column:
    """The lineage of a joined row: the left parents, then the right ones, if there are any."""
    hidden = F.concat_ws(",", left["all_parents_hash"], right["all_parents_hash"])
    parents = F.concat_ws(",", parents_text(left), parents_text(right))
    return _lineage(
        parents=parents,
        unlisted=F.coalesce(left["unlisted"], F.lit(0)) + F.coalesce(right["unlisted"], F.lit(0)),
        all_parents_hash=F.when(hidden != "", F.sha2(F.concat_ws(",", parents, hidden), 256)),
    )


def merge_lineage(lineage: Column, max_listed: int = MAX_LISTED_PARENTS) -> Column:
    """The lineage of an aggregated row, as an aggregate: all parents, listed up to a bound.

    Sorted, so that the same group gives the same text whatever order its rows came in.
    """
    everyone = F.array_sort(F.collect_set(parents_text(lineage)))
    unlisted = F.greatest(F.size(everyone) - max_listed, F.lit(0)).cast("bigint")
    return _lineage(
        parents=F.array_join(F.slice(everyone, 1, max_listed), ","),
        unlisted=unlisted + F.sum(lineage["unlisted"]),
        all_parents_hash=F.when(unlisted > 0, F.sha2(F.array_join(everyone, ","), 256)),
    )


def parents_text(lineage: Column) -> Column:
    """The parents' addresses, separated by commas."""
    single = F.concat(
        lineage["topic"],
        F.lit("/"),
        lineage["partition"].cast("string"),
        F.lit("@"),
        lineage["offset"].cast("string"),
    )
    return F.coalesce(lineage["parents"], single)


def _lineage(**given: Column) -> Column:
    """The struct; a row has either one parent, as topic, partition and offset, or their text."""
    fields = {
        "topic": F.lit(None).cast("string"),
        "partition": F.lit(None).cast("int"),
        "offset": F.lit(None).cast("bigint"),
        "parents": F.lit(None).cast("string"),
        "unlisted": F.lit(0).cast("bigint"),
        "all_parents_hash": F.lit(None).cast("string"),
        "headers": F.lit(None).cast(HEADERS_TYPE),
        **given,
    }
    return F.struct(*(column.alias(name) for name, column in fields.items()))


def record_headers(
    lineage: Column,
    writer: Writer,
    batch_id: Column,
    *,
    ordinal: Column | None = None,
    error: Column | None = None,
    error_headers: Sequence[Column] = (),
) -> Column:
    """All headers of an output record: stamp, parent's stamp, lineage, then those of others.

    Rows whose `error` is not null get `error_headers` as well, before those of others.
    """
    parent = lineage["headers"]
    good = F.lit(True) if error is None else error.isNull()
    stamp = [_header(name, _stamp_value(name, writer, batch_id)) for name in writer.order]
    own = _header(LINEAGE, lineage_value(lineage, writer, ordinal).cast("binary"))
    # The first two branches are what nearly all records take, and the only ones that have to be
    # quick. Each expression stands in as few places as can be: the JVM does not compile a
    # method that has grown too long, and then everything is slow.
    return (
        F.when(good & parent.isNull(), F.array(*stamp, own))
        .when(
            good & _is_plainly_ours(parent),
            F.array(*stamp, _header(PARENT_LINEAGE, _parent_text(parent)), own),
        )
        .otherwise(_all_that_may_be(parent, stamp, own, good, error_headers))
    )


def _is_plainly_ours(parent: Column) -> Column:
    """Whether the parent has Headwater's headers only, and its stamp needs no escaping."""
    size = F.size(parent)
    complete = ((size == 4) & (_key(parent, 3) == LINEAGE)) | (
        (size == 5) & (_key(parent, 4) == LINEAGE)
    )
    odd = F.lit(False)
    for place in range(3):
        text = _value(parent, place).cast("string")
        odd = odd | text.contains('"') | text.contains("\\")
    # A null value makes this null, and the record takes the careful way.
    return complete & _has_stamp(parent) & ~odd


def _all_that_may_be(
    parent: Column, stamp: list[Column], own: Column, good: Column, error_headers: Sequence[Column]
) -> Column:
    """The same for any parent: headers of others, half a stamp, quotes in a job's name."""
    words = [F.concat(*_word(parent, place)) for place in range(3)]
    text = F.to_json(F.array(*(F.coalesce(word, F.lit("{}")) for word in words)))
    parent_stamp = F.array(_header(PARENT_LINEAGE, text.cast("binary")))
    nothing = F.array().cast(HEADERS_TYPE)
    foreign = F.filter(parent, lambda header: ~header["key"].isin(*OWN_HEADERS))
    errors = F.array(*error_headers) if error_headers else nothing
    return F.concat(
        F.array(*stamp),
        F.when(_has_stamp(parent), parent_stamp).otherwise(nothing),
        F.array(own),
        F.when(good, nothing).otherwise(errors),
        F.coalesce(foreign, nothing),
    )


def lineage_value(lineage: Column, writer: Writer, ordinal: Column | None = None) -> Column:
    """The text of the `lineage` header; its form is in `codec`."""
    words = [F.lit(f"{VERSION} {writer.run_id} "), lineage_identity(lineage, writer, ordinal)]
    return F.concat(*words)


def lineage_identity(lineage: Column, writer: Writer, ordinal: Column | None = None) -> Column:
    """The part of the text that is the same whenever the record is made again."""
    parents = F.coalesce(parents_text(lineage), F.lit("-"))
    text = F.when(lineage["unlisted"] == 0, parents).otherwise(
        F.concat(parents, F.lit(",+"), lineage["unlisted"].cast("string"))
    )
    if ordinal is not None:
        ordinal = F.coalesce(ordinal, F.lit(0))
        place = F.when(ordinal == 0, F.lit("")).otherwise(
            F.concat(F.lit(" #"), ordinal.cast("string"))
        )
        text = F.concat(text, place)
    hashed = F.concat_ws(
        "\0",
        F.lit(writer.job_name),
        lineage["all_parents_hash"],
        F.lit("0") if ordinal is None else ordinal.cast("string"),
    )
    return F.when(lineage["all_parents_hash"].isNull(), text).otherwise(
        F.concat(text, F.lit(" ="), F.substring(F.sha2(hashed, 256), 1, 32))
    )


def _stamp_value(name: str, writer: Writer, batch_id: Column) -> Column:
    values = {JOB_NAME: F.lit(writer.job_name), JOB_VERSION: F.lit(writer.job_version)}
    return values.get(name, batch_id).cast("binary")


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.alias("value"))


def _has_stamp(parent: Column) -> Column:
    """Whether the parent is a record of Headwater's: its stamp comes first."""
    return F.coalesce(
        _key(parent, 0).isin(*STAMP_HEADERS)
        & _key(parent, 1).isin(*STAMP_HEADERS)
        & _key(parent, 2).isin(*STAMP_HEADERS),
        F.lit(False),
    )


def _parent_text(parent: Column) -> Column:
    """The parent's stamp in the text form that people know."""
    first, second, third = (_word(parent, place) for place in range(3))
    between = F.lit('","')
    return F.concat(F.lit('["'), *first, between, *second, between, *third, F.lit('"]')).cast(
        "binary"
    )


def _word(parent: Column, place: int) -> list[Column]:
    value = _value(parent, place).cast("string")
    return [F.lit("{"), _key(parent, place), F.lit(", "), value, F.lit("}")]


def _key(parent: Column, place: int) -> Column:
    return F.get(parent, F.lit(place))["key"]


def _value(parent: Column, place: int) -> Column:
    return F.get(parent, F.lit(place))["value"]
