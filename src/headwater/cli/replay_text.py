"""Plans, manifests and differences as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.output import print_json
from headwater.cli.text import as_json as bytes_as_json
from headwater.cli.text import one_line_each, printable

if TYPE_CHECKING:
    from headwater.replay.planning import PlannedReplay
    from headwater.replay.preview import Difference

_RANGES_SHOWN = 5
_FILES_SHOWN = 5


def plan_lines(planned: PlannedReplay, existing: int) -> Iterator[str]:
    """What a replay would do."""
    plan = planned.plan
    yield from _head(plan.as_json(), plan.record_count)
    yield _line("files", f"{len(planned.files)} of the archive, version {planned.archive_version}")
    for name in planned.files[:_FILES_SHOWN]:
        yield _line("", name)
    if len(planned.files) > _FILES_SHOWN:
        yield _line("", f"… {len(planned.files) - _FILES_SHOWN} more")
    for partition, number in planned.lag.items():
        yield _line("lag", f"the last {number} offsets of {plan.topic}/{partition} not archived")
    yield _line("existing", f"{existing} results of these records are already in the target")
    if plan.can_be_undone:
        yield _line("undo", f"`headwater replay undo {plan.replay_id}` deletes its rows")
    else:
        yield _line("undo", "not possible: records can't be deleted from a topic")
    state = "new" if planned.existing is None else planned.existing.state()
    yield _line("state", state if state != "done" else "already done: nothing would be written")


def manifest_lines(content: Mapping[str, Any]) -> Iterator[str]:
    """A manifest, or the known part of it while a replay is not done."""
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
        yield _line("skipped", f"{result['skipped']} exist with the same content")
    if result["found_after_interruption"]:
        found = result["found_after_interruption"]
        yield _line("resumed", f"{found} had been written before the interruption")
    if content["undone_rows"] is not None:
        yield _line("undone", f"{content['undone_rows']} rows were deleted")
    yield _line("signed", "yes" if "signature" in content else "no")


def _head(plan: Mapping[str, Any], records: int) -> Iterator[str]:
    yield _line("replay", plan["replay_id"])
    yield _line("transform", f"{plan['logic']}, job {plan['job_name']} {plan['job_version']}")
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
        first = f"{plan['topic']}/{gap['partition']}@{gap['first']}"
        yield _line("gap", f"{first} to {gap['last']}: {gap['reason']}")
    yield _line("target", plan["target"])


def _line(name: str, text: object) -> str:
    return f"{name:<11}{one_line_each(str(text))}"


def print_differences(differences: Sequence[Difference], as_json: bool) -> None:
    """Print old and new results one below the other; equal ones are only counted."""
    if as_json:
        print_json(
            [
                {
                    "identity": each.identity,
                    "same": each.same,
                    "old": bytes_as_json(each.old) if each.has_old else {"missing": True},
                    "new": bytes_as_json(each.new) if each.has_new else {"missing": True},
                }
                for each in differences
            ]
        )
        return
    for each in differences:
        if not each.same:
            click.echo(printable(each.identity.encode()))
            click.echo(f"  - {printable(each.old) if each.has_old else '(nothing)'}")
            click.echo(f"  + {printable(each.new) if each.has_new else '(nothing)'}")
    same = sum(each.same for each in differences)
    click.echo(
        f"{len(differences)} results compared: {same} the same, {len(differences) - same} different"
    )
