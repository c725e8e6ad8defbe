"""The settings of row lineage are those that the Java class reads."""

from __future__ import annotations

import re
from pathlib import Path

from headwater.spark.configuration import ROW_LINEAGE
from headwater.spark.row_lineage_settings import PREFIX, ROW_LINEAGE_SETTINGS

JAVA = Path(__file__).parents[3] / "java/src/main/java"
SOURCE = (JAVA / "dev/headwater/rowlineage/RowLineageConf.java").read_text()


def test_names_values_and_defaults_are_those_of_the_java_class() -> None:
    found: dict[str, tuple[str, tuple[str, ...]]] = {
        name: (default, ())
        for name, default in re.findall(r'conf\.get\(PREFIX \+ "(\w+)", "([^"]*)"\)', SOURCE)
    }
    for name, texts in re.findall(r'oneOf\(\s*conf,\s*mistakes,\s*"(\w+)",([^)]*)\)', SOURCE):
        values = tuple(re.findall(r'"([^"]*)"', texts))
        found[name] = (values[0], values)
    # Read as a boolean.
    found["enabled"] = (found["enabled"][0], ("true", "false"))
    assert found == {each.key: (each.default, each.values) for each in ROW_LINEAGE_SETTINGS}
    assert f'PREFIX = "{PREFIX}"' in SOURCE


def test_every_component_of_the_java_record_is_documented() -> None:
    (components,) = re.findall(r"record RowLineageConf\(([^)]*)\)", SOURCE)
    names = [each.split()[-1] for each in components.split(",")]
    assert names == [*(each.key for each in ROW_LINEAGE_SETTINGS), "mistakes"]


def test_the_extension_is_a_class_of_the_java_project() -> None:
    assert (JAVA / f"{ROW_LINEAGE.replace('.', '/')}.java").is_file()
