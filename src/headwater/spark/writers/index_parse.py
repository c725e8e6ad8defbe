"""Parses lineage headers with Spark expressions.

The grammar is `HEADER_REGEX` of `model.header`: both accept the same headers.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.model.header import (
    BATCH_VERSION,
    HEADER_REGEX,
    JOB_NAME,
    JOB_VERSION,
    LINEAGE,
    MAX_HEADER_BYTES,
    MAX_PARENTS_IN_LISTING,
    MORE_PARENTS,
    RANGE_MARK,
    VERSION,
    VERSION_3,
)
from headwater.model.run_record import RunLookup
from headwater.spark.compat import make_valid_utf8, try_cast
from headwater.spark.local_rows import local_rows
from headwater.storage.index.contract import MAX_INDEXED_PARENTS, MAX_STAMP_BYTES

# Results of parsing the lineage header of a record.
READ = "read"
WITHOUT_LINEAGE = "without_lineage"
UNREADABLE = "unreadable"
# A parent is the record itself, or a later one of the same partition, or a range contains such.
REFUSED = "refused"

_PARENTS_TYPE = "array<struct<topic:string,partition:int,offset:bigint>>"
_RANGES_TYPE = "array<struct<topic:string,partition:int,first:bigint,last:bigint>>"
_WORDS_TYPE = "array<string>"
# In one micro-batch; forged headers may name any number.
_MAX_RUNS = 10_000


def parse_lineage(records: DataFrame) -> DataFrame:
    """Rows of a Kafka source as `topic, partition, offset, lineage` (one of the results above),
    `parents`, `ranges`, `unlisted`, `run_id`, `job_name`, `job_version` and `batch_version`."""
    selected = records.select(
        "topic",
        "partition",
        "offset",
        *(_first(name).alias(f"_{name}") for name in (LINEAGE, *_STAMP)),
        F.exists("headers", lambda header: header["key"] == LINEAGE).alias("_has_header"),
    )
    text = F.col(f"_{LINEAGE}").cast("string")
    fits = F.length(f"_{LINEAGE}") <= MAX_HEADER_BYTES
    read = selected.withColumn("_text", F.when(fits & text.rlike(HEADER_REGEX), text))
    read = read.withColumn("_items", _items(F.col("_text")))
    read = read.withColumn("_parents", _parents(F.col("_items"), F.col("_text")))
    read = read.withColumn("_ranges", _ranges(F.col("_items")))
    listed, ranges = F.col("_parents"), F.col("_ranges")
    lineage = (
        F.when(~F.coalesce("_has_header", F.lit(False)), WITHOUT_LINEAGE)
        .when(listed.isNull() | F.exists(listed, _is_invalid_address), UNREADABLE)
        .when(F.exists(ranges, _is_invalid_range), UNREADABLE)
        .when(F.exists(listed, _is_impossible_parent), REFUSED)
        .when(F.exists(ranges, _is_impossible_range), REFUSED)
        .otherwise(READ)
    )
    words = F.split("_text", " ")
    good = F.col("lineage") == READ
    no_parents, no_ranges = F.array().cast(_PARENTS_TYPE), F.array().cast(_RANGES_TYPE)
    return read.withColumn("lineage", lineage).select(
        "topic",
        "partition",
        "offset",
        "lineage",
        F.when(good, F.array_distinct(listed)).otherwise(no_parents).alias("parents"),
        F.when(good, F.array_distinct(ranges)).otherwise(no_ranges).alias("ranges"),
        F.when(good, _unlisted(words[2], F.col("_items"), F.col("_text")))
        .otherwise(0)
        .alias("unlisted"),
        F.when(good & (words[1] != "-"), words[1]).alias("run_id"),
        _stamp_text(JOB_NAME).alias("job_name"),
        _stamp_text(JOB_VERSION).alias("job_version"),
        F.coalesce(_number(BATCH_VERSION), F.when(good, _batch(F.col("_text")))).alias(
            "batch_version"
        ),
    )


_STAMP = (JOB_NAME, JOB_VERSION, BATCH_VERSION)


def _first(name: str) -> Column:
    """The value of the first header of this name: a job writes its own headers first."""
    return F.get(F.filter("headers", lambda header: header["key"] == name), F.lit(0))["value"]


def _batch(text: Column) -> Column:
    """The batch in the lineage header, of a record with a compact stamp."""
    return try_cast(F.regexp_extract(text, r" b([0-9]{1,18})(?: >|$)", 1), "bigint")


def is_compact() -> Column:
    """Whether a record has a compact stamp: its job is known by the run only."""
    has_run = F.col("run_id").isNotNull() & F.col("batch_version").isNotNull()
    return has_run & F.col("job_name").isNull()


def with_runs(parsed: DataFrame, runs: RunLookup) -> DataFrame:
    """Add the jobs of records with a compact stamp."""
    distinct = parsed.where(is_compact()).select("run_id").distinct()
    ids = [row["run_id"] for row in distinct.limit(_MAX_RUNS).collect()]
    found = [
        (run_id, run.job_name, run.job_version) for run_id in ids if (run := runs.find(run_id))
    ]
    if not found:
        return parsed
    known = local_rows(parsed.sparkSession, found, "_run string, _job string, _version string")
    stamped = F.col("job_name").isNotNull()
    joined = parsed.join(F.broadcast(known), parsed["run_id"] == known["_run"], "left")
    return (
        joined.withColumn(
            "job_version", F.when(stamped, F.col("job_version")).otherwise(F.col("_version"))
        )
        .withColumn("job_name", F.coalesce("job_name", "_job"))
        .drop("_run", "_job", "_version")
    )


def _items(text: Column) -> Column:
    """The items of PARENTS, each with one address or range; null if the text is null, or lists more
    parents than allowed."""
    listed = F.substring_index(F.split(text, " ")[2], ",+", 1)
    words = F.when(listed == "-", F.array().cast(_WORDS_TYPE)).otherwise(F.split(listed, ","))
    # Counted before they are made: a short header can stand for any number.
    parents = F.aggregate(words, F.lit(0).cast("bigint"), lambda sum_, word: sum_ + _size(word))
    allowed = parents <= MAX_PARENTS_IN_LISTING
    single = F.when(allowed, F.flatten(F.transform(words, _single_items)))
    return F.when(text.startswith(f"{VERSION_3} "), single).otherwise(words)


def _single_items(word: Column) -> Column:
    """Consecutive parents as addresses; any other item, and an invalid one, as it is."""
    first, last = _ends(word)
    before = F.substring_index(word, "@", 1)
    addresses = F.transform(
        F.sequence(first, last), lambda offset: F.concat(before, F.lit("@"), offset.cast("string"))
    )
    return F.when(_is_address(word) & (first <= last), addresses).otherwise(F.array(word))


def _size(word: Column) -> Column:
    """The number of parents of an item; one for an invalid one."""
    first, last = _ends(word)
    # Added to the lesser of both: the greatest range has more offsets than a bigint can count.
    size = F.least(last - first, F.lit(MAX_PARENTS_IN_LISTING)) + 1
    return F.when(_is_address(word), F.greatest(F.coalesce(size, F.lit(1)), F.lit(1))).otherwise(0)


def _ends(word: Column) -> tuple[Column, Column]:
    """The first and the last offset of an address or a range; null if out of Kafka's range."""
    ends = F.substring_index(word, "@", -1)
    first, last = (try_cast(F.substring_index(ends, "..", side), "bigint") for side in (1, -1))
    return first, last


def _parents(items: Column, text: Column) -> Column:
    """The listed parents, up to the indexed maximum; null if the text is null.

    Records that list additional parents count as parents, so that a walk reaches those.
    """
    rest = F.substring_index(F.when(text.contains(" >"), text), " >", -1)
    more = F.coalesce(F.split(rest, ","), F.array().cast(_WORDS_TYPE))
    # Only later versions have other items.
    exact = F.when(_is_exact(text), items).otherwise(F.filter(items, _is_address))
    return F.transform(F.slice(F.concat(exact, more), 1, MAX_INDEXED_PARENTS), _address)


def _ranges(items: Column) -> Column:
    """The ranges, up to the indexed maximum."""
    words = F.filter(items, lambda item: item.startswith(RANGE_MARK))
    return F.transform(F.slice(words, 1, MAX_INDEXED_PARENTS), _range)


def _is_exact(text: Column) -> Column:
    return text.startswith(f"{VERSION} ")


def _is_address(item: Column) -> Column:
    return ~item.startswith(RANGE_MARK) & (item != MORE_PARENTS)


def _range(word: Column) -> Column:
    begin, (first, last) = _address(F.substring(word, 2, 1000)), _ends(word)
    return F.struct(
        begin["topic"].alias("topic"),
        begin["partition"].alias("partition"),
        first.alias("first"),
        last.alias("last"),
    )


def _address(word: Column) -> Column:
    partition = F.substring_index(word, "@", 1)
    return F.struct(
        F.substring_index(partition, "/", 1).alias("topic"),
        # Null if the number exceeds Kafka's range.
        try_cast(F.substring_index(partition, "/", -1), "int").alias("partition"),
        try_cast(F.substring_index(word, "@", -1), "bigint").alias("offset"),
    )


def _is_invalid_address(parent: Column) -> Column:
    out_of_range = parent["partition"].isNull() | parent["offset"].isNull()
    return out_of_range | parent["topic"].isin(".", "..")


def _is_invalid_range(within: Column) -> Column:
    unknown = within["partition"].isNull() | within["first"].isNull() | within["last"].isNull()
    return unknown | within["topic"].isin(".", "..") | (within["first"] > within["last"])


def _is_impossible_range(within: Column) -> Column:
    return (
        (within["topic"] == F.col("topic"))
        & (within["partition"] == F.col("partition"))
        & (within["last"] >= F.col("offset"))
    )


def _is_impossible_parent(parent: Column) -> Column:
    return (
        (parent["topic"] == F.col("topic"))
        & (parent["partition"] == F.col("partition"))
        & (parent["offset"] >= F.col("offset"))
    )


def _unlisted(parents: Column, items: Column, text: Column) -> Column:
    """The number of parents that the header only counts or that exceed the indexed maximum; one for
    parents that are not known."""
    only_counted = parents.contains("+") & ~text.contains(" >")
    counted = F.when(only_counted, F.substring_index(parents, "+", -1).cast("bigint"))
    unknown = F.when(parents.contains(MORE_PARENTS), 1).otherwise(0)
    ranges = F.when(_is_exact(text), 0).otherwise(
        F.size(F.filter(items, lambda item: item.startswith(RANGE_MARK)))
    )
    exact = F.when(_is_exact(text), F.size(items)).otherwise(F.size(F.filter(items, _is_address)))
    beyond = F.greatest(exact - MAX_INDEXED_PARENTS, F.lit(0)) + F.greatest(
        ranges - MAX_INDEXED_PARENTS, F.lit(0)
    )
    return F.coalesce(counted, F.lit(0)) + (beyond + unknown).cast("bigint")


def _stamp_text(name: str) -> Column:
    value = F.col(f"_{name}")
    # Readers of Parquet and of Delta's statistics require UTF-8.
    text = make_valid_utf8(value.cast("string"))
    return F.when(F.length(value) <= MAX_STAMP_BYTES, text)


def _number(name: str) -> Column:
    text = F.col(f"_{name}").cast("string")
    return F.when(text.rlike(r"\A[0-9]{1,19}\z"), try_cast(text, "bigint"))
