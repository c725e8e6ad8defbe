"""What the index of edges and the archive have in common: Delta tables whose rows have addresses.

`open_table`, `intervals` and `pruning` are for readers, without a JVM; `names` is for Spark."""

from headwater.errors import NotInstalledError


def missing_part(what: str, error: ImportError) -> NotInstalledError:
    """For a reader without the packages of the extra `index`."""
    return NotInstalledError(
        f"reading {what} needs a package that is not installed: {error.name}",
        hint='pip install "headwater[index]"',
        package=error.name,
    )
