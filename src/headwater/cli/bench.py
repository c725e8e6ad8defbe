"""`bench [NAME]`."""

from __future__ import annotations

import importlib

import click

from headwater.bench import BENCHES
from headwater.bench.result import BenchResult
from headwater.cli.app import with_settings
from headwater.cli.output import json_option, messages, print_json, print_table
from headwater.settings import Settings


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHES)))
@click.option(
    "--records", type=click.IntRange(1000), help="Fewer records, for a trial; of `unchanged` only."
)
@click.option(
    "--repeats", type=click.IntRange(1), help="Measurements of each; of `unchanged` only."
)
@json_option
@with_settings
def bench(
    settings: Settings,
    names: tuple[str, ...],
    records: int | None,
    repeats: int | None,
    as_json: bool,
) -> None:
    """Measure on this machine; without a name: everything. A missed target does not exit 1."""
    given = {"records": records, "repeats": repeats}
    options = {name: value for name, value in given.items() if value is not None}
    if options and names != ("unchanged",):
        raise click.UsageError("--records and --repeats are options of `bench unchanged`")
    results: list[BenchResult] = []
    for name in names or BENCHES:
        with messages.status(f"measuring {name}"):
            measure = importlib.import_module(BENCHES[name]).measure
            results.append(measure(settings, **options))
    if as_json:
        print_json([result.as_json() for result in results])
        return
    for result in results:
        _show(result)


def _show(result: BenchResult) -> None:
    click.echo(f"{result.name}, median of {result.repeats}")
    words = {True: "met", False: "NOT met", None: ""}
    rows = [(m.name, f"{m.value:,g}", m.unit, m.target, words[m.met]) for m in result.measurements]
    print_table(("measurement", "value", "unit", "target", ""), rows)
    machine = result.machine
    if machine is not None:
        load = f"{machine.load_before} before, {machine.load_after} after"
        click.echo(f"{machine.cores} cores, Python {machine.python}, load {load}")
