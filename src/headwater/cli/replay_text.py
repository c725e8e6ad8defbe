"""Plans, manifests and differences, as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.output import print_json
from headwater.cli.text import as_json as bytes_as_json
from headwater.cli.text import one_line_each, printable

if TYPE_CHECKING:
    from headwater.replay.planning import Planned
    from headwater.replay.preview import Difference

_RANGES_SHOWN = 5
_FILES_SHOWN = 5


def plan_lines(planned: Planned, there: int) -> Iterator[str]:
    """What would be done, and what one should know before."""
    plan = planned.plan
    yield from _head(plan.as_json(), plan.record_count)
    yield _line("files", f"{len(planned.files)} of the archive, version {planned.archive_version}")
    for name in planned.files[:_FILES_SHOWN]:
        yield _line("", name)
    if len(planned.files) > _FILES_SHOWN:
        yield _line("", f"… {len(planned.files) - _FILES_SHOWN} more")
    for partition, number in planned.behind.items():
        yield _line("behind", f"the archive lacks the newest {number} of {plan.topic}/{partition}")
    yield _line("there", f"{there} results of these records are in the target already")
    if plan.can_be_undone:
        yield _line("undo", f"`headwater replay undo {plan.replay_id}` takes its rows back")
    else:
        yield _line("undo", "not possible: what is written to a topic stays there")
    state = "new" if planned.known is None else planned.known.state()
    yield _line("state", state if state != "done" else "done before: nothing would be written")


def manifest_lines(content: Mapping[str, Any]) -> Iterator[str]:
    """A manifest, or what there is of one while a replay is not done."""
    plan = content["plan"]
    yield from _head(plan, sum(plan["records"].values()))
    yield _line("state", content["state"])
    yield _line("began", content["began"])
    if "result" not in content:
        return
    yield _line("ended", content["ended"])
    result = content["result"]
    yield _line("read", f"{result['read']} records, checksum {result['read_checksum']}")
    yield _line("written", f"{result['written']} records, checksum {result['written_checksum']}")
    if result["dead_letters"]:
        yield _line("failed", f"{result['dead_letters']} of them could not be processed")
    if plan["skip_existing"]:
        yield _line("skipped", f"{result['skipped']} were there with the same content")
    if result["found_after_interruption"]:
        found = result["found_after_interruption"]
        yield _line("resumed", f"{found} had been written before it was cut off")
    if content["undone_rows"] is not None:
        yield _line("undone", f"{content['undone_rows']} rows were taken back")
    yield _line("signed", "yes" if "signature" in content else "no")


def _head(plan: Mapping[str, Any], records: int) -> Iterator[str]:
    yield _line("replay", plan["replay_id"])
    yield _line("logic", f"{plan['logic']}, job {plan['job_name']} {plan['job_version']}")
    steps = "" if plan["steps"] == 1 else f" in {plan['steps']} steps"
    yield _line("records", f"{records}{steps}")
    for partition, ranges in plan["offsets"].items():
        shown = ", ".join(f"{first} to {last}" for first, last in ranges[:_RANGES_SHOWN])
        more = f", … {len(ranges) - _RANGES_SHOWN} more" if len(ranges) > _RANGES_SHOWN else ""
        number = plan["records"][partition]
        yield _line("", f"{plan['topic']}/{partition}: {number} at offsets {shown}{more}")
    for name, value in plan["filters"].items():
        yield _line("filter", f"{name} {value}")
    for gap in plan["gaps"]:
        place = f"{plan['topic']}/{gap['partition']}@{gap['first']}"
        yield _line("gap", f"{place} to {gap['last']}: {gap['reason']}")
    yield _line("target", plan["target"])


def _line(name: str, text: object) -> str:
    return f"{name:<9}{one_line_each(str(text))}"


def print_differences(differences: Sequence[Difference], as_json: bool) -> None:
    """Old and new, one below the other; those that are the same are only counted."""
    if as_json:
        print_json(
            [
                {
                    "identity": one.identity,
                    "same": one.same,
                    "old": bytes_as_json(one.old) if one.has_old else {"missing": True},
                    "new": bytes_as_json(one.new) if one.has_new else {"missing": True},
                }
                for one in differences
            ]
        )
        return
    for one in differences:
        if not one.same:
            click.echo(printable(one.identity.encode()))
            click.echo(f"  - {printable(one.old) if one.has_old else '(nothing)'}")
            click.echo(f"  + {printable(one.new) if one.has_new else '(nothing)'}")
    same = sum(one.same for one in differences)
    click.echo(
        f"{len(differences)} results compared: {same} the same, {len(differences) - same} different"
    )
