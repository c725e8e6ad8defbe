"""Fixtures with a real broker and a real Spark."""

pytest_plugins = ["headwater.testing.fixtures"]
