"""The checks of `headwater doctor`, in the order of their dependencies."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator

from headwater.errors import CheckFailedError, HeadwaterError
from headwater.jvm.distribution import check_jars, require_ok
from headwater.jvm.installed import find_java, installed_line, installed_spark
from headwater.jvm.jars import missing_jars
from headwater.jvm.versions import user_groups
from headwater.openlineage.validation import SWITCHED_OFF, validate
from headwater.service.check_result import CheckResult
from headwater.service.local import status
from headwater.service.managed import ServiceStatus
from headwater.service.preflight import check_free_space
from headwater.service.row_lineage_checks import check_extension_jar, describe_jobs, describe_runs
from headwater.settings import Settings

_MAX_TEXT = 300


def run_checks(settings: Settings) -> Iterator[CheckResult]:
    """Run all checks. They start no service; one test event is sent to the catalog.

    Yields each result as soon as it is known; a check that raises counts as failed.
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
        yield _run(name, check, settings)
    yield from _run_all("services", _services, settings)
    yield from _run_all("lineage", _lineage, settings)
    yield from _run_all("rows", _row_lineage, settings)


def run_spark_checks(settings: Settings) -> Iterator[CheckResult]:
    """Start Spark, write a few rows, and check that their lineage arrives."""

    def write_arrives(settings: Settings) -> str:
        if not settings.lineage.enabled:
            return SWITCHED_OFF
        # Imports pyspark.
        from headwater.collector.validation import check_write_arrives

        return check_write_arrives(settings)

    yield _run("lineage", write_arrives, settings)


def _run(name: str, check: Callable[[Settings], str], settings: Settings) -> CheckResult:
    try:
        return CheckResult(name, True, check(settings))
    except Exception as error:
        return _failed(name, error)


def _run_all(
    name: str, checks: Callable[[Settings], Iterator[CheckResult]], settings: Settings
) -> Iterator[CheckResult]:
    try:
        yield from checks(settings)
    except Exception as error:
        yield _failed(name, error)


def _failed(name: str, error: Exception) -> CheckResult:
    if isinstance(error, HeadwaterError):
        return CheckResult(name, False, error.message, error.hint)
    # The text of Spark's errors includes the stack trace.
    first = (str(error).splitlines() or [""])[0]
    return CheckResult(name, False, f"{type(error).__name__}: {first}"[:_MAX_TEXT])


def _python(settings: Settings) -> str:
    return f"{platform.python_version()} at {sys.executable}"


def _java(settings: Settings) -> str:
    java = find_java(settings)
    return f"{java.major} at {java.home} (found by {java.found_by})"


def _spark(settings: Settings) -> str:
    spark = installed_spark(settings)
    return f"{spark.version} with Scala {spark.scala} at {spark.home}, line {spark.line.name}"


def _jars(settings: Settings) -> str:
    groups = user_groups(installed_line(settings))
    missing = [jar for group in groups for jar in missing_jars(group, settings)]
    if missing:
        raise CheckFailedError(
            f"{len(missing)} pinned jars are not in {settings.jars_dir}",
            hint="run `headwater jars fetch`; a job also fetches the jars that it needs",
        )
    require_ok(check_jars(groups, settings))
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


def _lineage(settings: Settings) -> Iterator[CheckResult]:
    """Send a test event and check that it arrives."""
    for check in validate(settings):
        yield CheckResult(check.name, check.ok, check.text, check.hint)


def _row_lineage(settings: Settings) -> Iterator[CheckResult]:
    """Row lineage of plain jobs: the jar, and the jobs for which it is off or not exact."""
    yield _run("rows", check_extension_jar, settings)
    for describe in (describe_jobs, describe_runs):
        jobs = describe(settings)
        if jobs is not None:
            # By choice or by necessity: not a failure.
            yield CheckResult("rows", True, jobs)


def _services(settings: Settings) -> Iterator[CheckResult]:
    hints = {
        ServiceStatus.STOPPED: "run `headwater up`",
        ServiceStatus.SILENT: "see its log, or run `headwater down` and `headwater up`",
        ServiceStatus.UNREACHABLE: (
            "check KAFKA_BOOTSTRAP_SERVERS or HEADWATER_CATALOG__DATABASE_URL"
        ),
    }
    for state in status(settings):
        text = f"{state.state} at {state.address}"
        if state.reason:
            text = f"{text}: {state.reason}"
        hint = state.hint or hints.get(state.state)
        yield CheckResult(state.name, state.state not in hints, text, hint)
