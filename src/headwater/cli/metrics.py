"""`metrics`: the lineage service in figures."""

from __future__ import annotations

from typing import Any

import click

from headwater.cli.output import json_option, print_json, print_table, with_settings
from headwater.settings import Settings

_MAX_DATASETS = 10


@click.command()
@json_option
@with_settings
def metrics(settings: Settings, as_json: bool) -> None:
    """Show success, coverage, freshness, lag and pace, as the service's /metrics tells them."""
    from headwater.service.catalog_client import ask

    found = ask(settings, "/api/v1/metrics/now")
    if as_json:
        print_json(found)
        return
    print_table(("metric", "value"), _rows(found))
    stale = found["datasetFreshnessSeconds"]
    if stale:
        click.echo("\nlast written:")
        rows = [(_ago(each["seconds"]), each["name"], each["namespace"]) for each in stale]
        print_table(("ago", "dataset", "namespace"), rows[:_MAX_DATASETS])
        if len(rows) > _MAX_DATASETS:
            click.echo(f"and {len(rows) - _MAX_DATASETS} more: --json shows them")
        other = found["stalestOtherSeconds"]
        if other is not None:
            click.echo(
                f"and others, the oldest {_ago(other)} ago: HEADWATER_CATALOG__MAX_NAMED says "
                "how many are told by name"
            )


def _rows(found: Any) -> list[tuple[str, str]]:
    coverage, pace = found["lineageCoverageRatio"], found["ingestSeconds"]
    runs = ", ".join(f"{n} {state.lower()}" for state, n in found["runsByState"].items() if n)
    return [
        ("job success", _percent(found["jobSuccessRatio"])),
        ("jobs with complete lineage", _percent(coverage["jobs"])),
        ("records with lineage", _percent(coverage["records"])),
        ("jobs", str(found["jobs"])),
        ("jobs without lineage", str(found["jobsWithoutLineage"])),
        ("datasets", str(found["datasets"])),
        ("longest without a write", _stalest(found)),
        ("runs", runs or "none"),
        ("records yet to read", _number(found["consumerLag"])),
        ("late records", str(found["lateRecords"])),
        ("dead-lettered records", str(found["deadLettered"])),
        ("records out of order", str(found["orderViolations"])),
        ("events a second", f"{found['eventsPerSecond']:.1f}"),
        ("time to store, p50 and p99", f"{_ms(pace['p50'])}, {_ms(pace['p99'])}"),
    ]


def _stalest(found: Any) -> str:
    """Of all datasets: also those that are not told by name."""
    ages = [each["seconds"] for each in found["datasetFreshnessSeconds"]]
    if found["stalestOtherSeconds"] is not None:
        ages.append(found["stalestOtherSeconds"])
    return _ago(max(ages)) if ages else "not known"


def _percent(ratio: float | None) -> str:
    return "not known" if ratio is None else f"{100 * ratio:.1f} %"


def _number(value: int | None) -> str:
    return "not known" if value is None else str(value)


def _ms(seconds: float | None) -> str:
    return "not known" if seconds is None else f"{1000 * seconds:.1f} ms"


def _ago(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
