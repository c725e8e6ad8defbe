"""The one table of pinned versions: what was run together, and nothing else.

A change here is followed by `make lock`, which resolves the groups anew and writes every jar's
checksum to `jars.lock`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.errors import InputError, UnsupportedVersionError

SPARK_VERSIONS = ("4.1.3",)
# Spark 4.1 runs on both; on 25 it does not start.
JAVA_MAJORS = (17, 21)
KAFKA_VERSION = "4.3.1"

_SCALA = "2.13"
_SPARK = SPARK_VERSIONS[0]


@dataclass(frozen=True)
class JarGroup:
    """Jars that are fetched and put on a class path together."""

    name: str
    coordinates: tuple[str, ...]
    # Modules that are not wanted although something depends on them, as `group:module`.
    excludes: tuple[str, ...] = ()
    # Coordinates that are taken without what they depend on.
    alone: tuple[str, ...] = ()
    # Groups for Spark leave out what Spark's own jars hold already, in Spark's version.
    beside_spark: bool = True


_TOKEN_PROVIDER = f"org.apache.spark:spark-token-provider-kafka-0-10_{_SCALA}"

_ALL = (
    JarGroup(
        "kafka",
        # The connector asks for a token provider of its own version, which was never published:
        # 4.0.0 is the newest there is, and the connector calls nothing that changed since.
        (f"org.apache.spark:spark-sql-kafka-0-10_{_SCALA}:{_SPARK}",),
        excludes=(_TOKEN_PROVIDER,),
        alone=(f"{_TOKEN_PROVIDER}:4.0.0",),
    ),
    JarGroup(
        "delta",
        (f"io.delta:delta-spark_4.1_{_SCALA}:4.4.0",),
        # Spark logs through slf4j and holds a newer RoaringBitmap, with the shims inside.
        excludes=("commons-logging:commons-logging", "org.roaringbitmap:shims"),
    ),
    JarGroup("iceberg", (f"org.apache.iceberg:iceberg-spark-runtime-4.1_{_SCALA}:1.12.0",)),
    # For Iceberg catalogs that are kept in PostgreSQL.
    JarGroup("postgresql", ("org.postgresql:postgresql:42.7.14",)),
    JarGroup("openlineage", (f"io.openlineage:openlineage-spark_{_SCALA}:1.53.0",)),
    JarGroup(
        "broker",
        (
            f"org.apache.kafka:kafka_{_SCALA}:{KAFKA_VERSION}",
            f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
            "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
        ),
        beside_spark=False,
    ),
    # Compiles Headwater's own Java; a JDK is rarely there. Runs on Java 17.
    JarGroup("compiler", ("org.eclipse.jdt:ecj:3.46.0",), beside_spark=False),
)

GROUPS: Mapping[str, JarGroup] = {group.name: group for group in _ALL}
CONNECTORS = tuple(group.name for group in _ALL if group.beside_spark)


def jar_group(name: str) -> JarGroup:
    """The group of that name.

    Raises:
        InputError: there is none.
    """
    if name not in GROUPS:
        raise InputError(f"unknown group of jars: {name!r}", hint=f"known: {', '.join(GROUPS)}")
    return GROUPS[name]


def check_spark_version(version: str) -> None:
    """Refuse a Spark that the pinned connectors were not run with.

    Raises:
        UnsupportedVersionError: with the supported list.
    """
    if version not in SPARK_VERSIONS:
        supported = ", ".join(SPARK_VERSIONS)
        raise UnsupportedVersionError(
            f"Spark {version} is not supported; supported: {supported}",
            hint=f'install one of them: pip install "pyspark=={SPARK_VERSIONS[0]}"',
            version=version,
            supported=SPARK_VERSIONS,
        )
