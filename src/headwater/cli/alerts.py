"""`alerts check|list|test|watch`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from headwater.cli.app import with_settings
from headwater.cli.options import RenamedOption
from headwater.cli.output import json_option, messages, print_json, print_table, stopped_by_signals
from headwater.cli.text import json_text, one_line_each
from headwater.errors import InputError, UnavailableError
from headwater.settings import Settings, rules_file
from headwater.settings.path_option import PathOption


@click.group()
def alerts() -> None:
    """Alerts of the lineage service: rules, states and notification channels."""


@alerts.command()
@click.argument("file", required=False, type=PathOption())
@json_option
@with_settings
def check(settings: Settings, file: Path | None, as_json: bool) -> None:
    """Check a rules file; by default the one that the service reads.

    An invalid condition is an error with its position. A channel that no setting defines is a
    warning.
    """
    from headwater.catalog.alerting.channels import read_channels, undefined_channels
    from headwater.catalog.alerting.rules import read_rules

    path = file or rules_file(settings)
    if path is None:
        raise InputError("there is no rules file", hint="pass FILE, or set HEADWATER_ALERTS__FILE")
    rules = read_rules(path)
    missing = undefined_channels(rules, read_channels(settings.alerts.channels))
    if as_json:
        print_json(
            {
                "file": str(path),
                "alerts": [
                    {
                        "name": rule.name,
                        "condition": rule.condition.text,
                        "about": rule.condition.scope.value,
                        "names": list(rule.condition.fields),
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
        print_table(("alert", "scope", "condition", "channels"), rows)
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
    """Show the state of each alert."""
    from headwater.service.catalog_client import get_json

    response = get_json(settings, "/api/v1/alerts?limit=1000")
    if as_json:
        print_json(response)
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
        for each in response["alerts"]
    ]
    if not rows:
        click.echo("no alerts: the service has no rules file")
        return
    print_table(("state", "alert", "subject", "since", "value", "note"), rows)
    more = response["totalCount"] - len(rows)
    if more > 0:
        messages.print(f"and {more} more", markup=False)


def _note(alert: dict[str, Any]) -> str:
    """The problem and the counts of an alert; older services do not return the counts."""
    counted = (("withoutData", "without data"), ("heldBack", "held back"))
    notes = [f"{alert[key]} {words}" for key, words in counted if alert.get(key)]
    return "; ".join(filter(None, (alert["problem"], *notes)))


@alerts.command()
@click.argument("channel")
@json_option
@with_settings
def test(settings: Settings, channel: str, as_json: bool) -> None:
    """Send a test message to a channel from this machine.

    The same restrictions apply as for the service: a target that is not public is refused unless
    HEADWATER_ALERTS__ALLOW_PRIVATE lists its network.
    """
    from headwater.catalog.alerting.channels import find_channel, read_channels
    from headwater.catalog.alerting.messages import sample_message
    from headwater.catalog.alerting.sending import ChannelSender

    target = find_channel(read_channels(settings.alerts.channels), channel)
    sender = ChannelSender(target, settings.alerts)
    began = time.monotonic()
    try:
        sender.send(sample_message(target.name))
    finally:
        sender.close()
    seconds = time.monotonic() - began
    if as_json:
        print_json(
            {
                "channel": target.name,
                "kind": target.kind,
                "sent": True,
                "seconds": round(seconds, 3),
            }
        )
    else:
        click.echo(f"{target.name} ({target.kind}) accepted the message in {seconds:.1f} s")


@alerts.command()
@click.option(
    "--every",
    type=click.FloatRange(0.2, 3600),
    default=2.0,
    show_default=True,
    help="Seconds between two requests.",
)
@click.option(
    "--timeout",
    cls=RenamedOption,
    former=["--seconds"],
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Stop after this time.",
)
@json_option
@with_settings
def watch(settings: Settings, every: float, timeout: float | None, as_json: bool) -> None:
    """Print each change of an alert, and ring the bell when one fires.

    Also reports that the service does not respond, which it can't report itself.
    """
    began = time.monotonic()
    known: dict[tuple[str, str], str] = {}
    with stopped_by_signals() as stopped:
        while not stopped.is_set():
            for change in _changes(known, _fetch(settings)):
                _show(change, as_json)
            if timeout is not None and time.monotonic() - began >= timeout:
                return
            stopped.wait(every)


def _fetch(settings: Settings) -> dict[tuple[str, str], dict[str, Any]]:
    from headwater.service.catalog_client import get_json

    try:
        listed = get_json(settings, "/api/v1/alerts?limit=1000")["alerts"]
    except UnavailableError as error:
        down = {"name": "lineage service", "subject": None, "state": "unreachable"}
        return {("lineage service", ""): {**down, "value": error.message, "severity": "critical"}}
    return {(each["name"], each["subject"] or ""): each for each in listed}


def _changes(
    known: dict[tuple[str, str], str], current: dict[tuple[str, str], dict[str, Any]]
) -> list[dict[str, Any]]:
    """The differences from the `known` states, which are updated."""
    service = ("lineage service", "")
    if service in current:
        # The states of the alerts are unknown now: keep the last ones.
        current = {**{key: {"state": state} for key, state in known.items()}, **current}
    before, now = {name for name, _ in known}, {name for name, _ in current}
    changes = [
        each
        for (name, subject), each in current.items()
        if known.get((name, subject)) != each["state"]
        # An alert that is ok is not reported again when its last subject became ok.
        and (subject or each["state"] != "ok" or (name, subject) in known or name not in before)
    ]
    # The summary of an alert is not listed while its subjects are: it was not removed.
    changes += [
        {"name": name, "subject": subject or None, "state": "ok"}
        for (name, subject), state in known.items()
        if (name, subject) not in current and state != "ok" and (subject or name not in now)
    ]
    known.clear()
    known.update({key: each["state"] for key, each in current.items()})
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
