"""Only `headwater.spark.compat` knows that there are several versions of Spark."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import functions as F

import headwater

SOURCES = Path(headwater.__file__).parent
COMPAT = SOURCES / "spark" / "compat.py"
# Finds the jars of a line.
JVM = SOURCES / "jvm"
# What Spark 3.5 has not, and `compat` has.
METHODS = {"try_cast", "fromDDL", "toDDL", "getCondition", "getErrorClass", "toArrow"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(SOURCES.rglob("*.py")):
        if file != COMPAT and JVM not in file.parents:
            yield file.relative_to(SOURCES).as_posix(), ast.parse(file.read_text())


def attributes(tree: ast.AST) -> Iterator[ast.Attribute]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))


@pytest.mark.lines
def test_every_function_of_spark_that_is_called_exists_in_this_version() -> None:
    called = {
        (name, each.attr)
        for name, tree in modules()
        if "from pyspark.sql import functions as F" in ast.unparse(tree)
        for each in attributes(tree)
        if isinstance(each.value, ast.Name) and each.value.id == "F"
    }
    assert len(called) > 100
    assert sorted(each for each in called if not hasattr(F, each[1])) == []


def test_methods_that_some_version_lacks_are_called_by_compat_alone() -> None:
    used = [(name, each.attr) for name, tree in modules() for each in attributes(tree)]
    assert [each for each in used if each[1] in METHODS] == []


def test_no_other_module_compares_versions_of_spark() -> None:
    found = []
    for name, tree in modules():
        for node in ast.walk(tree):
            text = ast.unparse(node) if isinstance(node, ast.Compare | ast.Call) else ""
            compared = isinstance(node, ast.Compare) and (
                "pyspark.__version__" in text or "spark.version" in text
            )
            if compared or text.startswith(("hasattr(F,", "hasattr(Column,", "hasattr(DataFrame,")):
                found.append((name, text))
    assert found == []
