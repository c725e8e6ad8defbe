"""`alerts check|list|test|watch`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from headwater.cli.output import (
    json_option,
    messages,
    print_json,
    print_table,
    stopped_by_signals,
    with_settings,
)
from headwater.cli.text import json_text, one_line_each
from headwater.errors import InputError, UnavailableError
from headwater.settings import Settings, rules_file


@click.group()
def alerts() -> None:
    """Alerts of the lineage service: their rules, how they stand, where messages go."""


@alerts.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@json_option
@with_settings
def check(settings: Settings, file: Path | None, as_json: bool) -> None:
    """Check a rules file; without a name the one that the service would read.

    A condition that can't be used is an error with its position. A channel that no setting
    defines is a warning.
    """
    from headwater.catalog.alerting.channels import read_channels, undefined
    from headwater.catalog.alerting.rules import read_rules

    path = file or rules_file(settings)
    if path is None:
        raise InputError("there is no rules file", hint="name one, or set HEADWATER_ALERTS__FILE")
    rules = read_rules(path)
    missing = undefined(rules, read_channels(settings.alerts.channels))
    if as_json:
        print_json(
            {
                "file": str(path),
                "alerts": [
                    {
                        "name": rule.name,
                        "condition": rule.condition.text,
                        "about": rule.condition.scope.value,
                        "names": list(rule.condition.names),
                        "for": rule.hold_seconds,
                        "severity": rule.severity,
                        "channels": list(rule.channels),
                    }
                    for rule in rules
                ],
                "warnings": [_undefined(*each) for each in missing.items()],
            }
        )
    else:
        rows = [
            (rule.name, rule.condition.scope.value, rule.condition.text, ", ".join(rule.channels))
            for rule in rules
        ]
        print_table(("alert", "about", "condition", "channels"), rows)
    for each in missing.items():
        messages.print(f"warning: {_undefined(*each)}", markup=False, soft_wrap=True)


def _undefined(channel: str, named_by: list[str]) -> str:
    return (
        f"no setting defines channel {channel!r}, named by {', '.join(named_by)}: "
        f"set HEADWATER_ALERTS__CHANNELS__{channel.upper()}"
    )


@alerts.command("list")
@json_option
@with_settings
def list_(settings: Settings, as_json: bool) -> None:
    """Show how each alert stands, as the service found it."""
    from headwater.service.catalog_client import ask

    found = ask(settings, "/api/v1/alerts?limit=1000")
    if as_json:
        print_json(found)
        return
    rows = [
        (
            each["state"],
            each["name"],
            each["subject"] or "",
            each["since"],
            each["value"] or "",
            _note(each),
        )
        for each in found["alerts"]
    ]
    if not rows:
        click.echo("the service knows no alerts: it has no rules file")
        return
    print_table(("state", "alert", "what", "since", "found", "note"), rows)
    left = found["totalCount"] - len(rows)
    if left > 0:
        messages.print(f"and {left} more", markup=False)


def _note(alert: dict[str, Any]) -> str:
    """What else is to be known of it; a service that is older does not count."""
    counted = (("withoutData", "without data"), ("heldBack", "held back"))
    notes = [f"{alert[key]} {words}" for key, words in counted if alert.get(key)]
    return "; ".join(filter(None, (alert["problem"], *notes)))


@alerts.command()
@click.argument("channel")
@json_option
@with_settings
def test(settings: Settings, channel: str, as_json: bool) -> None:
    """Send a message to a channel, from here, and tell what became of it.

    The same rules hold as for the service: a target that is not public is refused unless
    HEADWATER_ALERTS__ALLOW_PRIVATE names its network.
    """
    from headwater.catalog.alerting.channels import find_channel, read_channels
    from headwater.catalog.alerting.messages import trial
    from headwater.catalog.alerting.sending import Sender

    found = find_channel(read_channels(settings.alerts.channels), channel)
    sender = Sender(found, settings.alerts)
    began = time.monotonic()
    try:
        sender.send(trial(found.name))
    finally:
        sender.close()
    seconds = time.monotonic() - began
    if as_json:
        print_json(
            {"channel": found.name, "kind": found.kind, "sent": True, "seconds": round(seconds, 3)}
        )
    else:
        click.echo(f"{found.name} ({found.kind}) took the message, after {seconds:.1f} s")


@alerts.command()
@click.option(
    "--every",
    type=click.FloatRange(0.2, 3600),
    default=2.0,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option("--seconds", type=click.FloatRange(min=0), help="Stop after this time.")
@json_option
@with_settings
def watch(settings: Settings, every: float, seconds: float | None, as_json: bool) -> None:
    """Print each change of an alert as it happens, with a bell for what fires.

    A service that does not answer is told as well: nobody else could tell it.
    """
    began = time.monotonic()
    known: dict[tuple[str, str], str] = {}
    with stopped_by_signals() as stopped:
        while not stopped.is_set():
            for change in _changes(known, _look(settings)):
                _show(change, as_json)
            if seconds is not None and time.monotonic() - began >= seconds:
                return
            stopped.wait(every)


def _look(settings: Settings) -> dict[tuple[str, str], dict[str, Any]]:
    from headwater.service.catalog_client import ask

    try:
        listed = ask(settings, "/api/v1/alerts?limit=1000")["alerts"]
    except UnavailableError as error:
        down = {"name": "lineage service", "subject": None, "state": "unreachable"}
        return {("lineage service", ""): {**down, "value": error.message, "severity": "critical"}}
    return {(each["name"], each["subject"] or ""): each for each in listed}


def _changes(
    known: dict[tuple[str, str], str], found: dict[tuple[str, str], dict[str, Any]]
) -> list[dict[str, Any]]:
    """What differs from the last look; `known` is brought up to date."""
    service = ("lineage service", "")
    if service in found:
        # Of the alerts themselves nothing is known now.
        found = {**{key: {"state": state} for key, state in known.items()}, **found}
    before, now = {name for name, _ in known}, {name for name, _ in found}
    changes = [
        each
        for (name, about), each in found.items()
        if known.get((name, about)) != each["state"]
        # That an alert is ok as a whole goes without saying once its subjects are.
        and (about or each["state"] != "ok" or (name, about) in known or name not in before)
    ]
    # An alert as a whole is not listed beside its subjects: it is not gone.
    changes += [
        {"name": name, "subject": about or None, "state": "ok"}
        for (name, about), state in known.items()
        if (name, about) not in found and state != "ok" and (about or name not in now)
    ]
    known.clear()
    known.update({key: each["state"] for key, each in found.items()})
    return changes


def _show(change: dict[str, Any], as_json: bool) -> None:
    bell = change["state"] in ("firing", "unreachable")
    if as_json:
        click.echo(json_text(change))
    else:
        parts = [change["state"], change["name"], change.get("subject"), change.get("value")]
        click.echo(one_line_each("  ".join(str(part) for part in parts if part)))
    if bell and messages.is_terminal:
        messages.bell()
