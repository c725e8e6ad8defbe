"""The schema of the tables that a query writes, as it stands: it may change while the query runs.

A table is evolved by others, or by a `foreachBatch` that writes further columns. Neither is in the
plan of the query, so the tables themselves are looked at, behind a micro-batch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType

from headwater.openlineage import facets
from headwater.openlineage.events import Dataset, DatasetName, name_of

# Of a table that is there; None of what is none, or can't be asked.
SchemaOf = Callable[[Dataset], StructType | None]

# Looking takes the driver some time: at most this share of it.
_SHARE = 0.01


class OutputSchemas:
    """What was told of each table's columns, held against what it has now."""

    def __init__(
        self,
        outputs: Sequence[Dataset],
        schema_of: SchemaOf | None,
        whole: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tables = [each for each in outputs if schema_of and _format(each)]
        self._schema_of = schema_of
        self._whole = frozenset(whole)
        self._clock = clock
        self._next = clock()
        self._known: dict[DatasetName, Any] = {
            name_of(each): each["facets"].get("schema", {}).get("fields") for each in outputs
        }

    def due(self) -> bool:
        """Whether it is time to look."""
        return bool(self._tables) and self._clock() >= self._next

    def changed(self) -> dict[DatasetName, facets.Facet]:
        """The schema of each table that has another one than was told of last."""
        began = self._clock()
        found = {}
        for table in self._tables:
            fields = self._fields(table)
            if fields and fields != self._known[name_of(table)]:
                self._known[name_of(table)] = fields
                found[name_of(table)] = facets.schema(fields)
        now = self._clock()
        self._next = now + (now - began) / _SHARE
        return found

    def _fields(self, table: Dataset) -> list[dict[str, Any]] | None:
        try:
            schema = self._schema_of(table) if self._schema_of else None
        except Exception:
            # Not made yet, or not to be read: nothing is known of it that was not told.
            return None
        if schema is None:
            return None
        return [_field(each.name, each.dataType, each.name in self._whole) for each in schema]


def schemas_in(spark: SparkSession) -> SchemaOf:
    """Asks a session for its Delta and Iceberg tables."""

    def schema_of(table: Dataset) -> StructType | None:
        name = name_of(table)
        if _format(table) == "iceberg":
            return _iceberg_schema(spark, name.name)
        place = name.name if name.namespace == "file" else f"{name.namespace}/{name.name}"
        return spark.read.format("delta").load(place).schema

    return schema_of


def _iceberg_schema(spark: SparkSession, name: str) -> StructType:
    """Not `spark.table`: a session keeps tables as they were, and a micro-batch has its own."""
    iceberg: Any = getattr(spark._jvm, "org.apache.iceberg.spark")  # noqa: SLF001
    table = iceberg.Spark3Util.loadIcebergTable(spark._jsparkSession, name)  # noqa: SLF001
    table.refresh()
    schema = str(iceberg.SparkSchemaUtil.convert(table.schema()).json())
    return StructType.fromJson(json.loads(schema))


def _format(dataset: Mapping[str, Any]) -> str | None:
    layer = dataset["facets"].get("storage", {}).get("storageLayer")
    return layer if layer in ("delta", "iceberg") else None


def _field(name: str, kind: DataType, whole: bool = False) -> dict[str, Any]:
    """As `description` tells those of a plan."""
    said = kind.jsonValue()
    found: dict[str, Any] = {"name": name}
    found["type"] = said if isinstance(said, str) else str(said.get("type", "struct"))
    if isinstance(kind, StructType) and not whole:
        found["fields"] = [_field(each.name, each.dataType) for each in kind]
    return found
