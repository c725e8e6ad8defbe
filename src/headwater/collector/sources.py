"""Sources and outputs of a query: datasets, topic names, first offsets, schemas.

Reads the plan through py4j, with a few calls per leaf.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType

from headwater.openlineage import facets
from headwater.openlineage.events import (
    Dataset,
    DatasetName,
    Ranges,
    file_location,
    kafka_namespace,
    kafka_topic,
    name_of,
)
from headwater.openlineage.tables import delta_table, iceberg_table
from headwater.spark.session import running_session
from headwater.storage.checkpoint import Offsets, read_started, started_offsets

# The datasets of each leaf: several topics or folders, or none if it has no name.
LeafDatasets = list[list[Dataset]]


def leaf_datasets(plan: Any, hidden: Iterable[str] = ()) -> LeafDatasets:
    """The datasets that each leaf of a plan reads: from left to right, then those of subqueries.

    `dev.headwater.columns.ColumnLineage` numbers the leaves in the same way.

    Args:
        plan: a logical plan in the JVM.
        hidden: topics that are not reported.
    """
    ignored = frozenset(hidden)
    plans = [plan, *_each(plan.subqueriesAll())]
    return [_datasets(leaf, ignored) for each in plans for leaf in _each(each.collectLeaves())]


def _each(scala: Any) -> Iterator[Any]:
    return (scala.apply(number) for number in range(scala.size()))


def kafka_servers(plan: Any) -> str | None:
    """The brokers of a plan's Kafka sources; None if there are none, or several clusters."""
    clusters = {}
    for leaf in _each(plan.collectLeaves()):
        if str(leaf.getClass().getSimpleName()) == "StreamingRelationV2":
            servers = _java_options(leaf.extraOptions()).get("kafka.bootstrap.servers")
            if servers:
                clusters[kafka_namespace(servers)] = servers
    return next(iter(clusters.values())) if len(clusters) == 1 else None


class KafkaInputs:
    """The topics that a plan reads from one cluster: by name, and by pattern."""

    def __init__(self, plan: Any, bootstrap_servers: str) -> None:
        self.names: set[str] = set()
        # Java's patterns, as Spark's source compares them.
        self._patterns: list[Any] = []
        for leaf in _each(plan.collectLeaves()):
            if str(leaf.getClass().getSimpleName()) != "StreamingRelationV2":
                continue
            options = _java_options(leaf.extraOptions())
            if options.get("kafka.bootstrap.servers") == bootstrap_servers:
                self.names.update(_topics(options))
                if "subscribePattern" in options:
                    self._patterns.append(_java_pattern(options["subscribePattern"]))

    @property
    def has_patterns(self) -> bool:
        return bool(self._patterns)

    def reads(self, topic: str) -> bool:
        """Whether a topic of this name is read."""
        # Spark searches for a pattern; it need not match the complete name.
        return topic in self.names or any(each.matcher(topic).find() for each in self._patterns)


def _java_pattern(text: str) -> Any:
    spark = running_session()
    assert spark is not None  # noqa: S101 - a plan is of a running session
    jvm: Any = spark._jvm  # noqa: SLF001
    return jvm.java.util.regex.Pattern.compile(text)


def _datasets(leaf: Any, hidden: frozenset[str]) -> list[Dataset]:
    kind = str(leaf.getClass().getSimpleName())
    try:
        if kind == "StreamingRelationV2":
            options = _java_options(leaf.extraOptions())
            return _streaming(str(leaf.sourceName()), options, leaf, hidden)
        if kind == "StreamingRelation":
            source = leaf.dataSource()
            return _files(str(leaf.sourceName()), _scala_options(source.options()))
        if kind == "DataSourceV2Relation":
            return table_of(leaf.table())
        if kind == "LogicalRelation":
            paths = map(str, _each(leaf.relation().location().rootPaths()))
            return [_file(str(leaf.relation().fileFormat()), path) for path in paths]
    except Exception:
        # An unknown kind of source has no dataset name.
        return []
    return []


def _streaming(
    source: str, options: dict[str, str], leaf: Any, hidden: frozenset[str]
) -> list[Dataset]:
    if source == "kafka":
        return [
            topic_dataset(options.get("kafka.bootstrap.servers", ""), topic)
            for topic in _topics(options)
            if topic not in hidden
        ]
    return table_of(leaf.table()) or _files(source, options)


def _topics(options: dict[str, str]) -> list[str]:
    """The named topics; topics of a pattern are known from the progress of batches."""
    if "subscribe" in options:
        return [topic.strip() for topic in options["subscribe"].split(",") if topic.strip()]
    return sorted(json.loads(options["assign"])) if "assign" in options else []


def topic_dataset(bootstrap_servers: str, topic: str) -> Dataset:
    """A topic as the dataset of an event."""
    name = kafka_topic(bootstrap_servers, topic)
    return name.dataset({"dataSource": facets.data_source(name.namespace, name.namespace)})


def table_of(table: Any) -> list[Dataset]:
    """The dataset of a catalog table, if its location is known."""
    name, properties = str(table.name()), table.properties()
    location = properties.get("location")
    if str(properties.get("provider") or properties.get("format") or "").startswith("iceberg"):
        return [iceberg_table(name, location)]
    if str(properties.get("provider") or "") == "delta" and location:
        return [delta_table(str(location))]
    return [file_location(str(location)).dataset()] if location else []


def _files(source: str, options: dict[str, str]) -> list[Dataset]:
    return [_file(source, options["path"])] if "path" in options else []


def _file(kind: str, path: str) -> Dataset:
    if "delta" in kind.lower():
        return delta_table(path)
    return file_location(path).dataset({"storage": facets.storage(kind.lower())})


def _java_options(options: Any) -> dict[str, str]:
    # Only the options that are needed: others contain passwords.
    names = ("subscribe", "subscribePattern", "assign", "path", "kafka.bootstrap.servers")
    values = {name: options.get(name) for name in names}
    return {name: str(value) for name, value in values.items() if value is not None}


def _scala_options(options: Any) -> dict[str, str]:
    path = options.get("path")
    return {"path": str(path.get())} if path.isDefined() else {}


class TopicNames:
    """Dataset names of topics, the same in all events of a run.

    A query may use other brokers than the settings, or write their addresses differently. Topics
    that the events list keep their names; `servers` names topics that are discovered later.
    """

    def __init__(self, datasets: Sequence[Dataset], servers: str) -> None:
        names = [name_of(each) for each in datasets]
        self._known = {each.name: each for each in names if each.namespace.startswith("kafka:")}
        self._servers = servers

    def __getitem__(self, topic: str) -> DatasetName:
        return self._known.get(topic) or kafka_topic(self._servers, topic)

    def listed(self, ranges: Ranges) -> list[dict[str, Any]]:
        """Ranges as events list them."""
        return [
            self.range(topic, partition, first, last)
            for (topic, partition), (first, last) in sorted(ranges.items())
        ]

    def range(self, topic: str, partition: int, first: int, last: int) -> dict[str, Any]:
        name = {"namespace": self[topic].namespace, "topic": topic, "partition": partition}
        return {**name, "first": first, "last": last}


def first_offsets(checkpoint: Path | str | None, seconds: float) -> Offsets:
    """First offsets of a query from its checkpoint: Spark does not report those of the first batch.

    Empty if the checkpoint can't be read within `seconds`.
    """
    result: list[Offsets] = []

    def read() -> None:
        with suppress(Exception):
            if isinstance(checkpoint, Path):
                result.append(read_started(checkpoint))
            elif checkpoint:
                result.append(_read_with_hadoop(checkpoint))

    if isinstance(checkpoint, Path):
        read()
    else:
        # In a thread: an object store that hangs must not block a batch.
        reader = threading.Thread(target=read, name="lineage-begin", daemon=True)
        with suppress(RuntimeError):  # Threads can't be started during interpreter shutdown.
            reader.start()
            reader.join(seconds)
    return result[0] if result else {}


def _read_with_hadoop(checkpoint: str) -> Offsets:
    spark = running_session()
    if spark is None:
        return {}
    jvm: Any = spark._jvm  # noqa: SLF001
    context: Any = spark.sparkContext._jsc  # noqa: SLF001
    folder = jvm.org.apache.hadoop.fs.Path(checkpoint, "sources")
    files = folder.getFileSystem(context.hadoopConfiguration())
    contents = []
    for source in files.listStatus(folder):
        path = jvm.org.apache.hadoop.fs.Path(source.getPath(), "0")
        if not files.exists(path):
            # Not a Kafka source.
            continue
        content = files.open(path)
        try:
            text = str(jvm.org.apache.commons.io.IOUtils.toString(content, "UTF-8"))
        finally:
            content.close()
        contents.append(text.splitlines())
    return started_offsets(contents)


# The schema of an existing table; None for other datasets.
SchemaOf = Callable[[Dataset], StructType | None]

# Reading schemas takes time of the driver: at most this share.
_SHARE = 0.01


class OutputSchemas:
    """Compares the last reported schema of each table with the current one."""

    def __init__(
        self,
        outputs: Sequence[Dataset],
        schema_of: SchemaOf | None,
        unnested: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tables = [each for each in outputs if schema_of and _format(each)]
        self._schema_of = schema_of
        self._unnested = frozenset(unnested)
        self._clock = clock
        self._next = clock()
        self._known: dict[DatasetName, Any] = {
            name_of(each): each["facets"].get("schema", {}).get("fields") for each in outputs
        }

    def add(self, output: Dataset) -> None:
        """Compare the schema of a further output, from now on."""
        known = name_of(output) in self._known
        self._known[name_of(output)] = output["facets"].get("schema", {}).get("fields")
        if not known and self._schema_of and _format(output):
            self._tables.append(output)

    def due(self) -> bool:
        """Whether it is time to read the schemas."""
        return bool(self._tables) and self._clock() >= self._next

    def changed(self) -> dict[DatasetName, facets.Facet]:
        """Schemas that differ from the last reported ones."""
        began = self._clock()
        changed = {}
        for table in self._tables:
            fields = self._fields(table)
            if fields and fields != self._known[name_of(table)]:
                self._known[name_of(table)] = fields
                changed[name_of(table)] = facets.schema(fields)
        now = self._clock()
        self._next = now + (now - began) / _SHARE
        return changed

    def _fields(self, table: Dataset) -> list[dict[str, Any]] | None:
        try:
            schema = self._schema_of(table) if self._schema_of else None
        except Exception:
            # The table does not exist yet or can't be read.
            return None
        if schema is None:
            return None
        return [
            _typed_field(each.name, each.dataType, each.name in self._unnested) for each in schema
        ]


def schemas_in(spark: SparkSession) -> SchemaOf:
    """Reads schemas of Delta and Iceberg tables through a session."""

    def schema_of(table: Dataset) -> StructType | None:
        name = name_of(table)
        if _format(table) == "iceberg":
            return _iceberg_schema(spark, name.name)
        path = name.name if name.namespace == "file" else f"{name.namespace}/{name.name}"
        return spark.read.format("delta").load(path).schema

    return schema_of


def _iceberg_schema(spark: SparkSession, name: str) -> StructType:
    """Not with `spark.table`: a session caches tables, and a micro-batch has its own session."""
    iceberg: Any = getattr(spark._jvm, "org.apache.iceberg.spark")  # noqa: SLF001
    table = iceberg.Spark3Util.loadIcebergTable(spark._jsparkSession, name)  # noqa: SLF001
    table.refresh()
    schema = str(iceberg.SparkSchemaUtil.convert(table.schema()).json())
    return StructType.fromJson(json.loads(schema))


def _format(dataset: Mapping[str, Any]) -> str | None:
    layer = dataset["facets"].get("storage", {}).get("storageLayer")
    return layer if layer in ("delta", "iceberg") else None


def _typed_field(name: str, kind: DataType, unnested: bool = False) -> dict[str, Any]:
    """A field of the schema facet, from its data type."""
    type_json = kind.jsonValue()
    field: dict[str, Any] = {"name": name}
    field["type"] = (
        type_json if isinstance(type_json, str) else str(type_json.get("type", "struct"))
    )
    if isinstance(kind, StructType) and not unnested:
        field["fields"] = [_typed_field(each.name, each.dataType) for each in kind]
    return field
