"""Lineage as Spark columns: all work on rows is done by expressions inside the JVM.

A DataFrame with lineage has a column `lineage`: a struct of the parents' addresses as text and
the parent's headers. `with_lineage` makes it from a Kafka source, `merge_lineage` and
`join_lineage` combine it, and the sink turns it into the headers of an output record.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.model.header_codec import MAX_LISTED_PARENTS

LINEAGE_COLUMN = "lineage"
HEADERS_TYPE = "array<struct<key:string,value:binary>>"


def with_lineage(records: DataFrame) -> DataFrame:
    """Rows of a Kafka source, each with itself as the one parent of what is made from it.

    Only plain columns and literals: Spark then takes the struct apart again and never builds it.
    """
    parts = (F.col(name) for name in ("topic", "partition", "offset", "headers"))
    return records.withColumn(LINEAGE_COLUMN, parent_lineage(*parts))


def parent_lineage(topic: Column, partition: Column, offset: Column, headers: Column) -> Column:
    """The lineage of what is made from one record, by the record's address and headers."""
    return _lineage(topic=topic, partition=partition, offset=offset, headers=headers)


def join_lineage(left: Column, right: Column) -> Column:
    """The lineage of a joined row: the left parents, then the right ones, if there are any."""
    hidden = F.concat_ws(",", left["all_parents_hash"], right["all_parents_hash"])
    parents = F.concat_ws(",", parents_text(left), parents_text(right))
    rest = F.concat_ws(",", left["rest"], right["rest"])
    return _lineage(
        parents=parents,
        unlisted=F.coalesce(left["unlisted"], F.lit(0)) + F.coalesce(right["unlisted"], F.lit(0)),
        all_parents_hash=F.when(hidden != "", F.sha2(F.concat_ws(",", parents, hidden), 256)),
        rest=F.when(rest != "", rest),
    )


def merge_lineage(lineage: Column, max_listed: int = MAX_LISTED_PARENTS) -> Column:
    """The lineage of an aggregated row, as an aggregate: all parents, listed up to a bound.

    The rest goes to records of its own, in the topic `<output>-parents`. Sorted, so that the same
    group gives the same text whatever order its rows came in.
    """
    texts = F.collect_set(F.concat_ws(",", parents_text(lineage), lineage["rest"]))
    everyone = F.array_sort(
        F.array_distinct(F.flatten(F.transform(texts, lambda text: F.split(text, ","))))
    )
    count = F.size(everyone)
    more = count > max_listed
    return _lineage(
        parents=F.array_join(F.slice(everyone, 1, max_listed), ","),
        unlisted=F.greatest(count - max_listed, F.lit(0)).cast("bigint"),
        all_parents_hash=F.when(more, F.sha2(F.array_join(everyone, ","), 256)),
        rest=F.when(more, F.array_join(F.slice(everyone, max_listed + 1, count), ",")),
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
        "rest": F.lit(None).cast("string"),
        **given,
    }
    return F.struct(*(column.alias(name) for name, column in fields.items()))


def lineage_identity(lineage: Column, job_name: str, ordinal: Column) -> Column:
    """The part of the `lineage` header that is the same whenever the record is made again.

    The sink writes the header; this is for finding its records again.
    """
    parents = F.coalesce(parents_text(lineage), F.lit("-"))
    listed = F.coalesce(lineage["unlisted"], F.lit(0)) == 0
    text = F.when(listed, parents).otherwise(
        F.concat(parents, F.lit(",+"), lineage["unlisted"].cast("string"))
    )
    ordinal = F.coalesce(ordinal, F.lit(0))
    place = F.when(ordinal == 0, F.lit("")).otherwise(F.concat(F.lit(" #"), ordinal.cast("string")))
    text = F.concat(text, place)
    hashed = F.concat_ws(
        "\0",
        F.lit(job_name),
        lineage["all_parents_hash"],
        ordinal.cast("string"),
    )
    return F.when(lineage["all_parents_hash"].isNull(), text).otherwise(
        F.concat(text, F.lit(" ="), F.substring(F.sha2(hashed, 256), 1, 32))
    )
