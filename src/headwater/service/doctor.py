"""What `headwater doctor` looks at, in the order in which one thing needs the other."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headwater.errors import CheckFailedError, HeadwaterError, NotInstalledError
from headwater.jvm.jars import corrupt_jars, missing_jars
from headwater.jvm.java import find_java
from headwater.jvm.versions import GROUPS, check_spark_version
from headwater.openlineage.validation import SWITCHED_OFF, validate
from headwater.service.local import status
from headwater.service.managed import State
from headwater.service.preflight import check_free_space
from headwater.settings import Settings

_MAX_TEXT = 300


@dataclass(frozen=True)
class Finding:
    """The answer of one check."""

    name: str
    ok: bool
    text: str
    hint: str | None = None


def check_up(settings: Settings) -> Iterator[Finding]:
    """Run all checks; none starts anything, and the catalog gets one event of a job of its own.

    Each finding is given as soon as it is known, and a check that breaks is one.
    """
    checks: list[tuple[str, Callable[[Settings], str]]] = [
        ("python", _python),
        ("java", _java),
        ("spark", _spark),
        ("jars", _jars),
        ("disk", _disk),
        ("listener", _listener),
    ]
    for name, check in checks:
        yield _find(name, check, settings)
    yield from _each("services", _services, settings)
    yield from _each("lineage", _lineage, settings)


def check_up_spark(settings: Settings) -> Iterator[Finding]:
    """Start Spark, write a few rows, and see their lineage arrive."""

    def arrives(settings: Settings) -> str:
        if not settings.lineage.enabled:
            return SWITCHED_OFF
        # Imports pyspark.
        from headwater.collector.validation import check_write_arrives

        return check_write_arrives(settings)

    yield _find("lineage", arrives, settings)


def _find(name: str, check: Callable[[Settings], str], settings: Settings) -> Finding:
    try:
        return Finding(name, True, check(settings))
    except Exception as error:
        return _broken(name, error)


def _each(
    name: str, checks: Callable[[Settings], Iterator[Finding]], settings: Settings
) -> Iterator[Finding]:
    try:
        yield from checks(settings)
    except Exception as error:
        yield _broken(name, error)


def _broken(name: str, error: Exception) -> Finding:
    if isinstance(error, HeadwaterError):
        return Finding(name, False, error.message, error.hint)
    # Spark's errors bring their whole trace along.
    first = (str(error).splitlines() or [""])[0]
    return Finding(name, False, f"{type(error).__name__}: {first}"[:_MAX_TEXT])


def _python(settings: Settings) -> str:
    return f"{platform.python_version()} at {sys.executable}"


def _java(settings: Settings) -> str:
    java = find_java(settings)
    return f"{java.major} at {java.home} (found by {java.found_by})"


def _spark(settings: Settings) -> str:
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        raise NotInstalledError(
            "pyspark is not installed", hint="pip install 'headwater[spark]'"
        ) from None
    check_spark_version(version)
    return version


def _jars(settings: Settings) -> str:
    missing = [jar for group in GROUPS for jar in missing_jars(group, settings)]
    if missing:
        raise CheckFailedError(
            f"{len(missing)} pinned jars are not in {settings.jars_dir}",
            hint="`headwater jars fetch`; a job fetches those that it needs by itself",
        )
    corrupt = [jar for group in GROUPS for jar in corrupt_jars(group, settings)]
    if corrupt:
        raise CheckFailedError(
            f"{corrupt[0].coordinate} in {settings.jars_dir} is not the pinned jar",
            hint="remove it and run `headwater jars fetch`",
        )
    return f"all pinned jars are in {settings.jars_dir}, with the right checksums"


def _disk(settings: Settings) -> str:
    check_free_space(settings.home_dir, settings)
    return f"more than {settings.services.min_free_mb} MiB free at {settings.home_dir}"


def _listener(settings: Settings) -> str:
    if not settings.lineage.enabled:
        return f"not needed: lineage is {SWITCHED_OFF}"
    # Imports pyspark.
    from headwater.collector.validation import check_listener_jar

    return check_listener_jar(settings)


def _lineage(settings: Settings) -> Iterator[Finding]:
    """Whether what jobs tell arrives; an event of a job of its own is sent for it."""
    for check in validate(settings):
        yield Finding(check.name, check.ok, check.text, check.hint)


def _services(settings: Settings) -> Iterator[Finding]:
    hints = {
        State.STOPPED: "`headwater up`",
        State.SILENT: "look at its log, or `headwater down` and `headwater up`",
        State.UNREACHABLE: "look at KAFKA_BOOTSTRAP_SERVERS or HEADWATER_CATALOG__DATABASE_URL",
    }
    for state in status(settings):
        text = f"{state.state} at {state.address}"
        yield Finding(state.name, state.state not in hints, text, hints.get(state.state))
