"""The numbers of the schema migrations."""

from __future__ import annotations

from importlib import resources


def test_each_migration_has_its_own_number_and_none_is_missing() -> None:
    folder = resources.files("headwater.catalog.store").joinpath("migrations")
    numbers = sorted(int(file.name[:4]) for file in folder.iterdir() if file.name.endswith(".sql"))
    # A database at a version never gets a migration with a lower number.
    assert numbers == list(range(1, len(numbers) + 1))
