"""The one table of pinned versions: combinations that were run together, and nothing else.

After a change, `make lock` resolves the groups and writes the checksum of every jar to `jars.lock`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SPARK_VERSIONS = ("4.1.3",)
# Spark 4.1 runs on both; it does not start on Java 25.
JAVA_MAJORS = (17, 21)
KAFKA_VERSION = "4.3.1"

_SCALA = "2.13"
_SPARK = SPARK_VERSIONS[0]


@dataclass(frozen=True)
class JarGroup:
    """Jars that are fetched together and put on one class path."""

    name: str
    coordinates: tuple[str, ...]
    # Dependencies to leave out, as `group:module`.
    excludes: tuple[str, ...] = ()
    # Coordinates that are resolved without their dependencies.
    intransitive: tuple[str, ...] = ()
    # Leaves out modules that are among Spark's own jars.
    for_spark: bool = True
    # Builds and checks the Java project; never fetched for a user of the wheel.
    for_development: bool = False


_TOKEN_PROVIDER = f"org.apache.spark:spark-token-provider-kafka-0-10_{_SCALA}"

_ALL = (
    JarGroup(
        "kafka",
        # The connector requires a token provider of the same version, which was never published:
        # 4.0.0 is the newest one, and the connector calls nothing that has changed since.
        (f"org.apache.spark:spark-sql-kafka-0-10_{_SCALA}:{_SPARK}",),
        excludes=(_TOKEN_PROVIDER,),
        intransitive=(f"{_TOKEN_PROVIDER}:4.0.0",),
    ),
    JarGroup(
        "delta",
        (f"io.delta:delta-spark_4.1_{_SCALA}:4.4.0",),
        # Spark logs through slf4j and has a newer RoaringBitmap, which includes the shims.
        excludes=("commons-logging:commons-logging", "org.roaringbitmap:shims"),
    ),
    JarGroup("iceberg", (f"org.apache.iceberg:iceberg-spark-runtime-4.1_{_SCALA}:1.12.0",)),
    # For `from_avro` and `to_avro`. The newest version of 4.1 that was published.
    JarGroup("avro", (f"org.apache.spark:spark-avro_{_SCALA}:4.1.1",)),
    # For Iceberg catalogs in PostgreSQL.
    JarGroup("postgresql", ("org.postgresql:postgresql:42.7.14",)),
    JarGroup("openlineage", (f"io.openlineage:openlineage-spark_{_SCALA}:1.53.0",)),
    JarGroup(
        "broker",
        (
            f"org.apache.kafka:kafka_{_SCALA}:{KAFKA_VERSION}",
            f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
            "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
        ),
        for_spark=False,
    ),
    # Compiles the Java project without a JDK. Runs on Java 17.
    JarGroup("compiler", ("org.eclipse.jdt:ecj:3.46.0",), for_spark=False, for_development=True),
    JarGroup(
        "junit",
        ("org.junit.platform:junit-platform-console-standalone:6.1.3",),
        for_spark=False,
        for_development=True,
    ),
    JarGroup(
        "formatter",
        # The last version that runs on Java 17.
        ("com.google.googlejavaformat:google-java-format:1.28.0",),
        excludes=("com.google.guava:guava",),
        # Without their annotations, which are not used at run time.
        intransitive=("com.google.guava:guava:33.5.0-jre", "com.google.guava:failureaccess:1.0.3"),
        for_spark=False,
        for_development=True,
    ),
)

GROUPS: Mapping[str, JarGroup] = {group.name: group for group in _ALL}
CONNECTORS = tuple(group.name for group in _ALL if group.for_spark)
# What users need: connectors and the local broker.
USER_GROUPS = tuple(group.name for group in _ALL if not group.for_development)
