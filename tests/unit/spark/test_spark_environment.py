"""What the user has configured for Spark is found where `spark-submit` finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.spark.configuration import (
    java_options_of_spark,
    python_of_spark,
    spark_arguments_configuration,
    spark_files_configuration,
)

DEFAULTS = """
# A comment
! another
spark.master            local[3]
spark.sql.session.timeZone=Europe/Berlin
  spark.driver.memory : 2g
spark.sql.extensions a.A,\\
    b.B
spark.a\\=b 1 = 2
spark.path C:\\\\data\\u00e9
spark.empty
not.of.spark 1
"""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "MASTER", "SPARK_DRIVER_MEMORY"):
        monkeypatch.delenv(name, raising=False)


def test_defaults_are_read_in_the_format_of_java(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(DEFAULTS)
    assert spark_files_configuration(tmp_path) == {
        "spark.master": "local[3]",
        "spark.sql.session.timeZone": "Europe/Berlin",
        "spark.driver.memory": "2g",
        "spark.sql.extensions": "a.A,b.B",
        "spark.a=b": "1 = 2",
        "spark.path": "C:\\dataé",
        "spark.empty": "",
    }
    assert spark_files_configuration(tmp_path / "missing") == {}


def test_files_and_variables_have_the_precedence_of_spark_submit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults, chosen = tmp_path / "spark-defaults.conf", tmp_path / "own.conf"
    defaults.write_text("spark.master local[3]\nspark.a 1")
    chosen.write_text("spark.b 2")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("MASTER", "yarn")
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "3g")
    memory = {"spark.driver.memory": "3g"}
    found = {"spark.master": "local[3]", "spark.a": "1"}
    assert spark_files_configuration(Path("/none")) == {**memory, **found}
    # Another file replaces the default one, unless both are requested.
    arguments = f"--properties-file {chosen} pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    own = {**memory, "spark.master": "yarn", "spark.b": "2"}
    assert spark_files_configuration(Path("/none")) == own
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--load-spark-defaults {arguments}")
    assert spark_files_configuration(Path("/none")) == {**memory, **found, "spark.b": "2"}


def test_arguments_are_read_in_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spark_arguments_configuration() == {}
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS",
        "--master local[5] --conf spark.master=local[1] -c spark.a='x y' --verbose "
        "--conf=spark.b=1=2 --driver-memory=4g --jars a.jar,b.jar pyspark-shell",
    )
    assert spark_arguments_configuration() == {
        "spark.master": "local[5]",
        "spark.a": "x y",
        "spark.b": "1=2",
        "spark.driver.memory": "4g",
        "spark.jars": "a.jar,b.jar",
    }
    # pyspark reports this one.
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf 'spark.a=1")
    assert spark_arguments_configuration() == {}


def test_java_and_python_of_the_user_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert (java_options_of_spark("-Da=1"), python_of_spark("python")) == ("-Da=1", "python")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Da=2")
    monkeypatch.setenv("PYSPARK_PYTHON", "/own/python")
    # Java uses the last one.
    assert java_options_of_spark("-Da=1") == "-Da=1 -Da=2"
    assert python_of_spark("python") == "/own/python"
