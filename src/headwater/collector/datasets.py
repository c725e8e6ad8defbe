"""Canonical dataset names, so that every part of Spark reports a table under one name.

An Iceberg table has its SQL name (`iceberg`, `demo.news.articles_raw`), and its location as a
symlink. The listener uses its folder or, for some catalogs, does not report the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headwater.collector.columns import lineage_by_column
from headwater.openlineage import DatasetName, file_location
from headwater.openlineage import facets as make
from headwater.openlineage.events import Dataset, name_of
from headwater.openlineage.tables import iceberg_table

ICEBERG = "iceberg"
# More files are reported as their folder, so that events do not grow with the input.
MAX_FILES = 100
# Facets of the listener that describe the folder, not the table.
_FOLDER_FACETS = ("dataSource", "symlinks", "catalog")


def table_dataset(table: Mapping[str, Any], names: Renaming) -> Dataset:
    """The dataset of a table from the JVM queue (`java/`)."""
    dataset = _named(table)
    dataset["facets"]["schema"] = make.schema(table["fields"])
    if table.get("version"):
        dataset["facets"]["version"] = make.version(table["version"])
    lineage = table.get("lineage") or {}
    if lineage.get("columns"):
        sources = [names.of_source(source) for source in lineage["sources"]]
        columns = lineage_by_column(lineage, sources)
        if columns["fields"]:
            dataset["facets"]["columnLineage"] = columns
    return dataset


def add_files(
    inputs: dict[DatasetName, Dataset],
    files: list[DatasetName],
    fields: Sequence[Mapping[str, str]] = (),
) -> None:
    """Add the files that a query reads; the listener reports only the folder of several files.

    Args:
        fields: columns of the files. The schema of the listener wins.
    """
    kept = _few_names(files)
    folders = {
        folder: inputs.pop(folder)
        for folder in {_folder(name) for name in files} - set(kept)
        if folder in inputs
    }
    for name in kept:
        known = folders.get(_folder(name), {})
        facets = {"dataSource": make.data_source(name.namespace, name.namespace)}
        if fields:
            facets["schema"] = make.schema(fields)
        inputs.setdefault(name, {**known, **name.dataset({**facets, **known.get("facets", {})})})


def few_files(datasets: Iterable[Dataset]) -> dict[DatasetName, Dataset]:
    """Datasets by name, with many files replaced by their folders."""
    by_name = {name_of(each): each for each in datasets}
    reported = _folding(name for name, each in by_name.items() if _is_file(each))
    kept: dict[DatasetName, Dataset] = {}
    for name, dataset in by_name.items():
        shown = reported.get(name, name)
        # All files have the columns of the first: the query reads them together.
        kept.setdefault(shown, {**dataset, **shown._asdict()})
    return kept


def _few_names(names: Iterable[DatasetName]) -> list[DatasetName]:
    return list(dict.fromkeys(_folding(names).values()))


def _folding(names: Iterable[DatasetName]) -> dict[DatasetName, DatasetName]:
    """File -> the dataset that it is reported as: itself or, if there are many, a parent folder."""
    reported = {name: name for name in names}
    while len(set(reported.values())) > MAX_FILES:
        # The deepest first, so that folders with few files stay separate.
        deepest = max(_depth(now) for now in reported.values())
        wider = {
            name: _folder(now) if _depth(now) == deepest else now for name, now in reported.items()
        }
        if wider == reported:
            break
        reported = wider
    return reported


def _depth(name: DatasetName) -> int:
    return name.name.rstrip("/").count("/")


def _is_file(dataset: Dataset) -> bool:
    """False for tables that are named by their folder: they are never combined."""
    return "/" in dataset["name"] and not {"symlinks", "storage"} & dataset["facets"].keys()


def _folder(name: DatasetName) -> DatasetName:
    return DatasetName(name.namespace, name.name.rpartition("/")[0] or "/")


def _named(table: Mapping[str, Any]) -> Dataset:
    if "name" not in table:
        files = file_location(table["location"])
        return files.dataset({"dataSource": make.data_source(files.namespace, files.namespace)})
    if table.get("provider") == ICEBERG:
        return iceberg_table(table["name"], table.get("location"))
    if table.get("location"):
        facets = {"symlinks": make.symlinks([(table["catalog"], table["name"], "TABLE")])}
        return file_location(table["location"]).dataset(facets)
    return DatasetName(table["catalog"], table["name"]).dataset()


class Renaming:
    """Maps the listener's names to canonical names."""

    def __init__(self) -> None:
        self._tables: dict[DatasetName, Mapping[str, Any]] = {}
        self._by_name: dict[str, Mapping[str, Any]] = {}

    def learn(self, entry: Mapping[str, Any]) -> None:
        """Remember the locations of the tables of a query."""
        for table in (*entry.get("inputs", ()), *entry.get("outputs", ())):
            if "name" not in table:
                continue
            self._by_name[table["name"]] = table
            if table.get("location"):
                self._tables[file_location(table["location"])] = table

    def of_source(self, source: Mapping[str, Any]) -> list[DatasetName]:
        """The datasets of a source of a plan: files, a table, or none."""
        if "files" in source:
            return _few_names([file_location(path) for path in source["files"]])
        table = self._by_name.get(source.get("table", ""))
        return [name_of(_named(table))] if table is not None else []

    def of(self, dataset: Mapping[str, Any]) -> Dataset:
        """The listener's dataset with canonical names, also in its column lineage."""
        facets = dict(dataset.get("facets") or {})
        columns = facets.get("columnLineage")
        if columns:
            facets["columnLineage"] = _renamed_fields(columns, self._name)
        table = self._tables.get(name_of(dataset))
        if table is not None:
            named = _named(table)
            kept = {name: each for name, each in facets.items() if name not in _FOLDER_FACETS}
            return {**dataset, **named, "facets": {**kept, **named["facets"]}}
        return {**dataset, "facets": facets}

    def _name(self, namespace: str, name: str) -> DatasetName:
        listed = DatasetName(namespace, name)
        table = self._tables.get(listed)
        return listed if table is None else name_of(_named(table))


def _renamed_fields(columns: Mapping[str, Any], rename: Any) -> dict[str, Any]:
    def renamed(field: Mapping[str, Any]) -> dict[str, Any]:
        namespace, name = rename(field["namespace"], field["name"])
        return {**field, "namespace": namespace, "name": name}

    fields = {
        output: {**each, "inputFields": [renamed(field) for field in each["inputFields"]]}
        for output, each in columns.get("fields", {}).items()
    }
    dataset = [renamed(field) for field in columns.get("dataset") or ()]
    return {**columns, "fields": fields, **({"dataset": dataset} if dataset else {})}
