"""`metrics`: the metrics of the lineage service."""

from __future__ import annotations

from typing import Any

import click

from headwater.cli.app import with_settings
from headwater.cli.output import json_option, print_json, print_table
from headwater.settings import Settings

_MAX_DATASETS = 10


@click.command()
@json_option
@with_settings
def metrics(settings: Settings, as_json: bool) -> None:
    """Show job success, lineage coverage, freshness, lag and ingest rate."""
    from headwater.service.catalog_client import get_json

    values = get_json(settings, "/api/v1/metrics/now")
    if as_json:
        print_json(values)
        return
    print_table(("metric", "value"), _rows(values))
    stale = values["datasetFreshnessSeconds"]
    if stale:
        click.echo("\nlast written:")
        rows = [(_ago(each["seconds"]), each["name"], each["namespace"]) for each in stale]
        print_table(("ago", "dataset", "namespace"), rows[:_MAX_DATASETS])
        if len(rows) > _MAX_DATASETS:
            click.echo(f"and {len(rows) - _MAX_DATASETS} more: --json shows them")
        other = values["stalestOtherSeconds"]
        if other is not None:
            click.echo(
                f"and others, the oldest {_ago(other)} ago: HEADWATER_CATALOG__MAX_NAMED limits "
                "how many are listed by name"
            )


def _rows(values: Any) -> list[tuple[str, str]]:
    coverage, ingest = values["lineageCoverageRatio"], values["ingestSeconds"]
    runs = ", ".join(f"{n} {state.lower()}" for state, n in values["runsByState"].items() if n)
    return [
        ("job success", _percent(values["jobSuccessRatio"])),
        ("jobs with complete lineage", _percent(coverage["jobs"])),
        ("records with lineage", _percent(coverage["records"])),
        ("jobs", str(values["jobs"])),
        ("jobs without lineage", str(values["jobsWithoutLineage"])),
        ("datasets", str(values["datasets"])),
        ("longest without a write", _stalest(values)),
        ("runs", runs or "none"),
        ("consumer lag in records", _number(values["consumerLag"])),
        ("late records", str(values["lateRecords"])),
        ("dead-lettered records", str(values["deadLettered"])),
        ("records out of order", str(values["orderViolations"])),
        ("events per second", f"{values['eventsPerSecond']:.1f}"),
        ("ingest time, p50 and p99", f"{_ms(ingest['p50'])}, {_ms(ingest['p99'])}"),
    ]


def _stalest(values: Any) -> str:
    """Of all datasets, including those that are not listed by name."""
    ages = [each["seconds"] for each in values["datasetFreshnessSeconds"]]
    if values["stalestOtherSeconds"] is not None:
        ages.append(values["stalestOtherSeconds"])
    return _ago(max(ages)) if ages else "unknown"


def _percent(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{100 * ratio:.1f} %"


def _number(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def _ms(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{1000 * seconds:.1f} ms"


def _ago(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
