"""All that a project's tests need to get a real broker and a real Spark."""

pytest_plugins = ["headwater.testing.fixtures"]
