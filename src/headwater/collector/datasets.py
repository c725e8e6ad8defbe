"""Names of tables: one for each, whichever part of Spark tells of it.

An Iceberg table is known by its name in SQL (`iceberg`, `demo.news.articles_raw`); where it lies
is another name of it. The listener names it by its folder, or, in some catalogs, not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headwater.openlineage import DatasetName, file_location
from headwater.openlineage import facets as make
from headwater.openlineage.events import Dataset, name_of
from headwater.openlineage.tables import iceberg_table

ICEBERG = "iceberg"
# Of one folder; more are told as the folder, so that an event does not grow with the input.
MAX_FILES = 100
# Of a dataset of the listener's: these tell of the folder, or by whose code, not of the table.
_OF_THE_FOLDER = ("dataSource", "symlinks", "catalog")


def table_dataset(table: Mapping[str, Any], names: Renaming) -> Dataset:
    """A table as `java/` tells of it."""
    dataset = _named(table)
    dataset["facets"]["schema"] = make.schema(table["fields"])
    if table.get("version"):
        dataset["facets"]["version"] = make.version(table["version"])
    columns = table.get("columns") or {}
    sources = [names.of_source(source) for source in columns.get("sources", ())]
    fields = {
        output: {"inputFields": _input_fields(origins, sources)}
        for output, origins in columns.get("fields", {}).items()
    }
    if fields:
        decisive = _input_fields(columns.get("decisive", ()), sources)
        dataset["facets"]["columnLineage"] = make.column_lineage(fields, decisive)
    return dataset


def _input_fields(
    origins: Iterable[Sequence[Any]], sources: Sequence[Sequence[DatasetName]]
) -> list[dict[str, Any]]:
    """Each field of an input once, with all the ways in which it is used."""
    ways: dict[tuple[DatasetName, str], list[dict[str, Any]]] = {}
    for at, field, kind, subtype, masking, description in origins:
        for name in sources[at]:
            way = {"type": kind, "subtype": subtype, "description": description}
            ways.setdefault((name, field), []).append({**way, "masking": masking})
    return [
        {**name._asdict(), "field": field, "transformations": found}
        for (name, field), found in ways.items()
    ]


def add_files(
    inputs: dict[DatasetName, Dataset],
    files: list[DatasetName],
    fields: Sequence[Mapping[str, str]] = (),
) -> None:
    """Add files that a query reads; of several the listener tells only their folder.

    Args:
        fields: the files' columns. What the listener says of them wins.
    """
    kept = _few_names(files)
    told = {
        folder: inputs.pop(folder)
        for folder in {_folder(name) for name in files} - set(kept)
        if folder in inputs
    }
    for name in kept:
        known = told.get(_folder(name), {})
        facets = {"dataSource": make.data_source(name.namespace, name.namespace)}
        if fields:
            facets["schema"] = make.schema(fields)
        inputs.setdefault(name, {**known, **name.dataset({**facets, **known.get("facets", {})})})


def few_files(datasets: Iterable[Dataset]) -> dict[DatasetName, Dataset]:
    """Datasets by their names; many files are told as folders."""
    given = {name_of(each): each for each in datasets}
    lineage = _folding(name for name, each in given.items() if _is_file(each))
    kept: dict[DatasetName, Dataset] = {}
    for name, dataset in given.items():
        told = lineage.get(name, name)
        # All have the columns of the first, or the query could not read them together.
        kept.setdefault(told, {**dataset, **told._asdict()})
    return kept


def _few_names(names: Iterable[DatasetName]) -> list[DatasetName]:
    return list(dict.fromkeys(_folding(names).values()))


def _folding(names: Iterable[DatasetName]) -> dict[DatasetName, DatasetName]:
    """What each file is told as: itself or, if they are many, a folder around it."""
    told = {name: name for name in names}
    while len(set(told.values())) > MAX_FILES:
        # What lies deepest first: folders that hold little stay apart.
        deepest = max(_depth(now) for now in told.values())
        wider = {
            name: _folder(now) if _depth(now) == deepest else now for name, now in told.items()
        }
        if wider == told:
            break
        told = wider
    return told


def _depth(name: DatasetName) -> int:
    return name.name.rstrip("/").count("/")


def _is_file(dataset: Dataset) -> bool:
    """Tables that are known by their folder are none, however many they are."""
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
    """From the listener's names to those above."""

    def __init__(self) -> None:
        self._tables: dict[DatasetName, Mapping[str, Any]] = {}
        self._by_name: dict[str, Mapping[str, Any]] = {}

    def learn(self, told: Mapping[str, Any]) -> None:
        """Where the tables lie that a query uses."""
        for table in (*told.get("inputs", ()), *told.get("outputs", ())):
            if "name" not in table:
                continue
            self._by_name[table["name"]] = table
            if table.get("location"):
                self._tables[file_location(table["location"])] = table

    def of_source(self, source: Mapping[str, Any]) -> list[DatasetName]:
        """The datasets of a plan's source: files, or a table."""
        if "files" in source:
            return _few_names([file_location(path) for path in source["files"]])
        table = self._by_name.get(source["table"])
        return [name_of(_named(table))] if table is not None else []

    def of(self, dataset: Mapping[str, Any]) -> Dataset:
        """The listener's dataset under its own name, wherever that stands in it."""
        facets = dict(dataset.get("facets") or {})
        columns = facets.get("columnLineage")
        if columns:
            facets["columnLineage"] = _renamed_fields(columns, self._name)
        table = self._tables.get(name_of(dataset))
        if table is not None:
            named = _named(table)
            kept = {name: each for name, each in facets.items() if name not in _OF_THE_FOLDER}
            return {**dataset, **named, "facets": {**kept, **named["facets"]}}
        return {**dataset, "facets": facets}

    def _name(self, namespace: str, name: str) -> DatasetName:
        found = DatasetName(namespace, name)
        table = self._tables.get(found)
        return found if table is None else name_of(_named(table))


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
