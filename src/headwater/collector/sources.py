"""What the leaves of a plan are, as datasets. Asks Spark through py4j, a few calls for each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from headwater.openlineage import facets
from headwater.openlineage.events import (
    Dataset,
    file_location,
    kafka_namespace,
    kafka_topic,
)
from headwater.openlineage.tables import delta_table, iceberg_table

# A leaf may stand for several datasets (topics, folders), or for none that has a name.
LeafDatasets = list[list[Dataset]]


def leaf_datasets(plan: Any, hidden: Iterable[str] = ()) -> LeafDatasets:
    """For each leaf of a plan, from left to right, what it reads.

    Args:
        plan: a logical plan in the JVM.
        hidden: topics that are not told of.
    """
    leaves = plan.collectLeaves()
    ignored = frozenset(hidden)
    return [_datasets(leaves.apply(number), ignored) for number in range(leaves.size())]


def kafka_servers(plan: Any) -> str | None:
    """The brokers of a plan's Kafka sources; None if there are none, or several clusters."""
    leaves = plan.collectLeaves()
    found = {}
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if str(leaf.getClass().getSimpleName()) == "StreamingRelationV2":
            servers = _java_options(leaf.extraOptions()).get("kafka.bootstrap.servers")
            if servers:
                found[kafka_namespace(servers)] = servers
    return next(iter(found.values())) if len(found) == 1 else None


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
            paths = leaf.relation().location().rootPaths()
            found = [str(paths.apply(number)) for number in range(paths.size())]
            return [_file(str(leaf.relation().fileFormat()), path) for path in found]
    except Exception:
        # A source that looks otherwise than those above has no name here.
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
    """Those that are named; which ones a pattern means is told by the batches."""
    if "subscribe" in options:
        return [topic.strip() for topic in options["subscribe"].split(",") if topic.strip()]
    return sorted(json.loads(options["assign"])) if "assign" in options else []


def topic_dataset(bootstrap_servers: str, topic: str) -> Dataset:
    """A topic as the dataset of an event."""
    name = kafka_topic(bootstrap_servers, topic)
    return name.dataset({"dataSource": facets.data_source(name.namespace, name.namespace)})


def table_of(table: Any) -> list[Dataset]:
    """A table of a catalog, if it tells where it lies."""
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
    # Names only of what is needed: others hold passwords.
    names = ("subscribe", "assign", "path", "kafka.bootstrap.servers")
    found = {name: options.get(name) for name in names}
    return {name: str(value) for name, value in found.items() if value is not None}


def _scala_options(options: Any) -> dict[str, str]:
    found = options.get("path")
    return {"path": str(found.get())} if found.isDefined() else {}
