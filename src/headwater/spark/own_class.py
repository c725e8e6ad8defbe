"""Headwater's Java classes in Spark's JVM."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass
from pyspark import SparkContext

from headwater.errors import NotInstalledError


def own_class(name: str) -> Any:
    """A class of Headwater's jar, such as `quality.Attempt`.

    Raises:
        NotInstalledError: it is not on Spark's class path.
    """
    java_class = getattr(SparkContext._jvm, f"headwater.{name}")  # noqa: SLF001
    if not isinstance(java_class, JavaClass):
        # py4j treats an unknown class as a package.
        raise NotInstalledError(
            "Headwater's jar is not on Spark's class path",
            hint='spark-submit --jars "$(headwater jars path)" …',
        )
    return java_class
