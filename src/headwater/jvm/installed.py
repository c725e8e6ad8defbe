"""The Spark that is there: that of `SPARK_HOME`, else that of the package pyspark.

Its version is read from the name of a jar, so without starting Java. On a cluster that is the
cluster's Spark, which may be another one than the installed pyspark.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import NotInstalledError
from headwater.jvm.versions import SparkLine, line_for
from headwater.settings import Settings

# With suffixes of vendors: `spark-core_2.12-3.5.6-amzn-2.jar`.
_CORE = re.compile(r"spark-core_(?P<scala>\d+\.\d+)-(?P<version>\d++\.\d++.*)\.jar")


@dataclass(frozen=True, slots=True)
class InstalledSpark:
    """A Spark on this machine."""

    home: Path
    version: str
    scala: str

    @property
    def line(self) -> SparkLine:
        """The line whose connectors fit.

        Raises:
            UnsupportedVersionError: there is none.
        """
        return line_for(self.version, self.scala)

    @property
    def jars(self) -> list[Path]:
        return sorted((self.home / "jars").glob("*.jar"))


def installed_spark(settings: Settings) -> InstalledSpark:
    """The Spark that is there.

    Raises:
        NotInstalledError: there is none.
    """
    home = settings.jvm.spark_home or _pyspark()
    for path in sorted((home / "jars").glob("spark-core_*.jar")):
        match = _CORE.fullmatch(path.name)
        if match:
            return InstalledSpark(home, match["version"], match["scala"])
    raise NotInstalledError(
        f"{home} has no jars/spark-core_*.jar",
        hint="set SPARK_HOME to the folder of a Spark, or unset it to use the package pyspark",
    )


def installed_line(settings: Settings) -> SparkLine:
    """The line of the Spark that is there.

    Raises:
        NotInstalledError: there is none.
        UnsupportedVersionError: it is not supported.
    """
    return installed_spark(settings).line


def _pyspark() -> Path:
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise NotInstalledError(
            "there is no Spark: SPARK_HOME is not set and the package pyspark is not installed",
            hint="pip install 'headwater[spark]'",
        )
    return Path(package.origin).parent
