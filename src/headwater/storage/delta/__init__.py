"""What the lineage index and the archive have in common: Delta tables whose rows have addresses.

`open_table` and `pruning` read them without a JVM.
"""

from __future__ import annotations

from pathlib import Path

from headwater.errors import NotInstalledError
from headwater.model.local_files import file_uri


def sql_name(path: Path) -> str:
    """The name of a table in Spark SQL."""
    return f"delta.`{file_uri(path).replace('`', '``')}`"


def missing_part(what: str, error: ImportError) -> NotInstalledError:
    """For a reader without the packages of the extra `index`."""
    return NotInstalledError(
        f"reading {what} needs a package that is not installed: {error.name}",
        hint='pip install "headwater[index]"',
        package=error.name,
    )
