"""Delta and Iceberg tables as datasets."""

from __future__ import annotations

from headwater.openlineage import facets
from headwater.openlineage.events import Dataset, DatasetName, file_location

_ICEBERG = "iceberg"


def delta_table(location: str) -> Dataset:
    """A Delta table, named by its folder."""
    name = file_location(location)
    source = facets.data_source(name.namespace, name.namespace)
    return name.dataset({"storage": facets.storage("delta", "parquet"), "dataSource": source})


def iceberg_table(name: str, location: str | None = None) -> Dataset:
    """A table of an Iceberg catalog, named as in SQL; its location is a symlink."""
    source = facets.data_source(_ICEBERG, f"{_ICEBERG}://{name.partition('.')[0]}")
    table_facets = {"dataSource": source, "storage": facets.storage(_ICEBERG, "parquet")}
    if location:
        folder = file_location(location)
        table_facets["symlinks"] = facets.symlinks([(folder.namespace, folder.name, "LOCATION")])
    return DatasetName(_ICEBERG, name).dataset(table_facets)
