"""Records without an identity: exactly-once recovery never takes one for another."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.stamped import stamped

from headwater.delivery.sink import ORDINAL_COLUMN
from headwater.delivery.written import without_written
from headwater.model import Lineage
from headwater.model.header import LINEAGE, decode, encode, identity_of
from headwater.replay.identities import IDENTITY, in_topic, register_digest_udf
from headwater.spark.source import LINEAGE_COLUMN, lineage_identity, lineage_of

pytestmark = pytest.mark.spark

ITEMS = [
    ["visits/0@1", "visits/0@2"],
    ["~visits/0@3..17"],
    ["~visits/0@3..17"],
    ["visits/0@1", "?"],
    ["?"],
    # The ranges are among the parents that the header does not list.
    [*(f"visits/0@{n}" for n in range(70)), "~visits/0@100..117"],
]


def test_rows_with_ranges_are_never_taken_for_written_ones(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(n, items) for n, items in enumerate(ITEMS)], "n int, items array<string>"
    )
    rows = frame.select(
        "n",
        lineage_of(F.col("items")).alias(LINEAGE_COLUMN),
        F.lit(0).cast("bigint").alias(ORDINAL_COLUMN),
    )
    identity = lineage_identity(F.col(LINEAGE_COLUMN), "job", F.col(ORDINAL_COLUMN))
    found = [row[0] for row in rows.orderBy("n").select(identity).collect()]
    assert found == ["visits/0@1,visits/0@2", None, None, None, None, None]
    # What a header of the same words would be, if anything had recorded it.
    written = {"visits/0@1,visits/0@2", "~visits/0@3..17", "?", "visits/0@1,?"}
    left = without_written(rows, written, "job")
    assert sorted(row["n"] for row in left.select("n").collect()) == [1, 2, 3, 4, 5]


def test_a_replay_finds_only_exact_results_in_its_target(spark: SparkSession) -> None:
    register_digest_udf(spark)
    headers = [stamped(*items[:3]) for items in ITEMS]
    headers.append([*stamped()[:3], (LINEAGE, b"2 - visits/0@1 #3 b7 >out-parents/0@1")])
    rows = [(None, b"v", each) for each in headers]
    schema = "key binary, value binary, headers array<struct<key:string,value:binary>>"
    found = in_topic(spark.createDataFrame(rows, schema), "job", "another run").collect()
    expected = []
    for each in headers:
        lineage = decode(dict(each)[LINEAGE])
        assert isinstance(lineage, Lineage)
        expected.append(identity_of(encode(lineage)))
    assert [row[IDENTITY] for row in found] == expected
    assert expected == [
        "visits/0@1,visits/0@2",
        *[None] * 4,
        "visits/0@0,visits/0@1,visits/0@2",
        "visits/0@1 #3",
    ]
