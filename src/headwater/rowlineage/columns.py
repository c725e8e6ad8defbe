"""The headers as Spark columns: literals and one array expression, no Python per row."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from headwater.rowlineage.headers import OWN_HEADERS, JobStamp

_HEADERS_TYPE = "array<struct<key:string,value:binary>>"


def stamped_headers(stamp: JobStamp, order: Sequence[str], incoming: Column) -> Column:
    """The stamp's headers, followed by those that others put on the parent, in their order."""
    own = F.array(
        *(
            F.struct(F.lit(name).alias("key"), F.lit(value).cast("binary").alias("value"))
            for name, value in stamp.headers(order)
        )
    ).cast(_HEADERS_TYPE)
    foreign = F.filter(incoming, lambda header: ~header["key"].isin(*OWN_HEADERS))
    # Most records carry no headers; Kafka's source gives null for them, not an empty array.
    return F.when(incoming.isNull(), own).otherwise(F.concat(own, foreign))
