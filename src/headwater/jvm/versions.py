"""The one table of pinned versions: for each line of Spark its connectors, and the tools.

A line is a minor version of Spark with a Scala version: `4.1_2.13` is every Spark 4.1.x with Scala
2.13, those of vendors included. After a change, `make lock` resolves the groups and writes the
checksum of every jar to `locks/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Spark 3.5 and later run on both; they do not start on Java 25.
JAVA_MAJORS = (17, 21)
KAFKA_VERSION = "4.3.1"


@dataclass(frozen=True)
class JarGroup:
    """Jars that are fetched together and put on one class path."""

    name: str
    # Resolved with their dependencies.
    coordinates: tuple[str, ...] = ()
    # Dependencies to leave out, as `group:module`, with `*` for any.
    excludes: tuple[str, ...] = ()
    # Resolved without their dependencies.
    intransitive: tuple[str, ...] = ()
    # Builds and checks the Java project; never fetched for a user of the wheel.
    for_development: bool = False


@dataclass(frozen=True, eq=False)
class SparkLine:
    """A minor version of Spark with a Scala version.

    Attributes:
        name: version and Scala, such as `4.1_2.13`.
        pyspark: the release that the tests of the line use.
        missing: connectors that this line does not have, with the reason.
    """

    name: str
    version: str
    scala: str
    pyspark: str
    groups: Mapping[str, JarGroup] = field(repr=False)
    missing: Mapping[str, str] = field(repr=False)


CONNECTORS = ("kafka", "delta", "iceberg", "avro", "postgresql", "openlineage")
# What the Java project is compiled with.
SPARK = "spark"

_SCALA_LIBRARIES = {"2.12": "2.12.18", "2.13": "2.13.16"}
_SCALA_LIBRARY = "org.scala-lang:scala-library"
# Libraries that Spark brings along, and others that connectors do not use at run time: Spark logs
# through slf4j, and its RoaringBitmap includes the shims.
_OF_SPARK = (
    "org.scala-lang*:*",
    "org.apache.spark:spark-tags_*",
    "org.apache.hadoop:*",
    "*lz4:*",
    "org.xerial.snappy:*",
    "com.github.luben:*",
    "org.slf4j:*",
    "com.google.code.findbugs:jsr305",
    "org.antlr:*",
    "com.fasterxml.jackson.core:*",
    "com.fasterxml.jackson.datatype:jackson-datatype-jsr310",
    "com.fasterxml.jackson.module:*",
    "org.apache.commons:commons-lang3",
    "org.apache.httpcomponents*:*",
    "commons-logging:commons-logging",
    "org.roaringbitmap:*",
    "org.apache.logging.log4j:*",
    "org.apache.parquet:*",
    "commons-pool:commons-pool",
    "io.airlift:aircompressor",
    "org.locationtech.jts:*",
    "org.tukaani:xz",
)
# The classes that those of Spark refer to; the same versions serve for all lines.
_COMPILED_WITH = (
    "org.apache.hadoop:hadoop-client-api:3.3.4",
    "com.fasterxml.jackson.core:jackson-annotations:2.15.2",
    "com.fasterxml.jackson.core:jackson-core:2.15.2",
    "com.fasterxml.jackson.core:jackson-databind:2.15.2",
    "com.esotericsoftware:kryo-shaded:4.0.2",
    "org.apache.datasketches:datasketches-java:3.3.0",
    "org.apache.logging.log4j:log4j-api:2.20.0",
    "org.apache.logging.log4j:log4j-core:2.20.0",
    "org.roaringbitmap:RoaringBitmap:0.9.45",
    "org.slf4j:slf4j-api:2.0.7",
)


def _line(
    version: str,
    scala: str,
    *,
    pyspark: str,
    spark: str,
    kafka: str,
    delta: str | None = None,
    iceberg: str | None = None,
    avro: str | None = None,
    provider: str = "",
    missing: Mapping[str, str] | None = None,
) -> SparkLine:
    """A line; `delta` and `iceberg` are module and version, the others are versions.

    Args:
        spark: of the jars that the Java project is compiled with.
        provider: of the Kafka connector's token provider, where that of the connector's version
            can't be fetched from the registry: the connector calls nothing that has changed.
    """
    tokens = f"org.apache.spark:spark-token-provider-kafka-0-10_{scala}"
    connector = f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{kafka}"
    modules = ["core", "sql", "catalyst", "sql-api", "common-utils", "unsafe"]
    if version not in ("3.5", "4.0"):
        modules.append("common-utils-java")
    groups = [
        JarGroup(
            "kafka",
            (connector,),
            (*_OF_SPARK, tokens),
            (f"{tokens}:{provider or kafka}",),
        ),
        JarGroup("delta", (f"io.delta:{delta}",), _OF_SPARK) if delta else None,
        JarGroup("iceberg", (f"org.apache.iceberg:{iceberg}",)) if iceberg else None,
        # For `from_avro` and `to_avro`.
        JarGroup("avro", (f"org.apache.spark:spark-avro_{scala}:{avro}",), _OF_SPARK)
        if avro
        else None,
        # For Iceberg catalogs in PostgreSQL.
        JarGroup("postgresql", intransitive=("org.postgresql:postgresql:42.7.14",)),
        JarGroup("openlineage", (f"io.openlineage:openlineage-spark_{scala}:1.53.0",)),
        JarGroup(
            SPARK,
            intransitive=(
                *(f"org.apache.spark:spark-{module}_{scala}:{spark}" for module in modules),
                f"{_SCALA_LIBRARY}:{_SCALA_LIBRARIES[scala]}",
                f"org.scala-lang:scala-reflect:{_SCALA_LIBRARIES[scala]}",
                *_COMPILED_WITH,
            ),
            for_development=True,
        ),
    ]
    return SparkLine(
        f"{version}_{scala}",
        version,
        scala,
        pyspark,
        {group.name: group for group in groups if group is not None},
        missing or {},
    )


_NONE = "no {} for Spark {} can be fetched from the registry"

SPARK_LINES: tuple[SparkLine, ...] = (
    _line(
        "3.5",
        "2.12",
        pyspark="3.5.9",
        spark="3.5.7",
        kafka="3.5.7",
        delta="delta-spark_2.12:3.3.2",
        iceberg="iceberg-spark-runtime-3.5_2.12:1.12.0",
        avro="3.5.7",
    ),
    _line(
        "3.5",
        "2.13",
        pyspark="3.5.9",
        spark="3.5.7",
        kafka="3.5.7",
        provider="3.5.1",
        delta="delta-spark_2.13:3.3.2",
        iceberg="iceberg-spark-runtime-3.5_2.13:1.11.0",
        avro="3.5.7",
    ),
    _line(
        "4.0",
        "2.13",
        pyspark="4.0.5",
        spark="4.0.4",
        kafka="4.0.4",
        provider="4.0.0",
        delta="delta-spark_4.0_2.13:4.4.0",
        iceberg="iceberg-spark-runtime-4.0_2.13:1.11.0",
        avro="4.0.2",
    ),
    _line(
        "4.1",
        "2.13",
        pyspark="4.1.3",
        spark="4.1.3",
        kafka="4.1.3",
        provider="4.0.0",
        delta="delta-spark_4.1_2.13:4.4.0",
        iceberg="iceberg-spark-runtime-4.1_2.13:1.12.0",
        avro="4.1.1",
    ),
    _line(
        "4.2",
        "2.13",
        pyspark="4.2.1",
        spark="4.2.0",
        kafka="4.2.0",
        provider="4.0.0",
        delta="delta-spark_4.2_2.13:4.4.0",
        missing={
            "iceberg": _NONE.format("Iceberg runtime", "4.2"),
            "avro": _NONE.format("spark-avro", "4.2"),
        },
    ),
    # The registry has neither jars nor connectors of 4.3: those of 4.2 serve, except Delta, and the
    # project compiles to the same bytes with them as with the jars of pyspark 4.3.0.
    _line(
        "4.3",
        "2.13",
        pyspark="4.3.0",
        spark="4.2.0",
        kafka="4.2.0",
        provider="4.0.0",
        missing={
            "delta": _NONE.format("Delta", "4.3") + ", and that for 4.2 calls what 4.3 has changed",
            "iceberg": _NONE.format("Iceberg runtime", "4.3"),
            "avro": _NONE.format("spark-avro", "4.3"),
        },
    ),
)
# The one that is installed with the extra `spark`, and that the other tests use.
DEFAULT_LINE = next(line for line in SPARK_LINES if line.version == "4.1")

_COMMON = (
    JarGroup(
        "broker",
        (
            f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
            f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
            "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
        ),
    ),
    # Compiles the Java project without a JDK. Runs on Java 17.
    JarGroup("compiler", ("org.eclipse.jdt:ecj:3.46.0",), for_development=True),
    JarGroup(
        "junit",
        ("org.junit.platform:junit-platform-console-standalone:6.1.3",),
        for_development=True,
    ),
    JarGroup(
        "formatter",
        # The last version that runs on Java 17.
        ("com.google.googlejavaformat:google-java-format:1.28.0",),
        excludes=("com.google.guava:guava",),
        # Without their annotations, which are not used at run time.
        intransitive=("com.google.guava:guava:33.5.0-jre", "com.google.guava:failureaccess:1.0.3"),
        for_development=True,
    ),
)
# The same for every Spark.
COMMON_GROUPS: Mapping[str, JarGroup] = {group.name: group for group in _COMMON}
GROUP_NAMES = (*CONNECTORS, *COMMON_GROUPS, SPARK)


def user_groups(line: SparkLine) -> tuple[str, ...]:
    """What users need: the connectors of the line and the local broker."""
    groups = (*line.groups.values(), *_COMMON)
    return tuple(group.name for group in groups if not group.for_development)


def connectors_of(line: SparkLine) -> tuple[str, ...]:
    """The connectors that the line has."""
    return tuple(name for name in CONNECTORS if name in line.groups)
