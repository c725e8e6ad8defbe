"""The options of `replay` as a request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headwater.cli.parsing import parse_batches, parse_time
from headwater.errors import InputError
from headwater.jobs import LOGICS
from headwater.model import Address, JobOutput
from headwater.replay.planning import Request
from headwater.replay.selection import Selection, parse_offsets
from headwater.replay.table_path import table_target
from headwater.replay.transform import load_logic
from headwater.settings import Settings


def request_of(settings: Settings, given: dict[str, Any]) -> Request:
    """What the options of `replay` ask for.

    Raises:
        InputError: they contradict each other, or select nothing.
    """
    logic = load_logic(given["logic"], LOGICS)
    if given["job_name"]:
        logic = replace(logic, job_name=given["job_name"])
    if given["topic"] and given["table"]:
        raise InputError("--to and --to-table exclude each other")
    target = table_target(given["table"]) if given["table"] else given["topic"]
    if not (target or logic.output_topic):
        raise InputError(f"{given['logic']!r} names no output topic", hint="name one with --to")
    return Request(
        name=given["logic"].replace("-", "_") if given["logic"] in LOGICS else given["logic"],
        logic=logic,
        selection=_selection(given, logic.input_topic),
        job_version=given["job_version"] or settings.jobs.version,
        target=target or logic.output_topic or "",
        allow_gaps=given["allow_gaps"],
        force=given["force"],
        skip_existing=given["skip_existing"],
        again=given["again"],
        delivery=given["delivery"],
    )


def _selection(given: dict[str, Any], input_topic: str | None) -> Selection:
    topic, offsets = given["source"] or input_topic, None
    if given["offsets"] is not None:
        named, offsets = parse_offsets(given["offsets"])
        if given["source"] not in (None, named):
            raise InputError(f"--from names {given['source']!r}, --offsets {named!r}")
        topic = named
    if topic is None:
        raise InputError(f"{given['logic']!r} names no input topic", hint="name one with --from")
    selection = Selection(
        topic=topic,
        offsets=offsets,
        since_ms=_milliseconds(given["since"], "--since"),
        until_ms=_milliseconds(given["until"], "--until"),
        key=given["key"],
        where=given["where"],
        inputs_of=tuple(map(Address.parse, given["outputs"])),
        made_by=_made_by(given),
    )
    if not selection.selects:
        raise InputError(
            "nothing says which records to replay",
            hint="`headwater replay run --help` lists the ways; all of them are "
            f'--offsets \'{{"{topic}":{{"0":[-2,-1]}}}}\'',
        )
    return selection


def _made_by(given: dict[str, Any]) -> JobOutput | None:
    if given["made_by"] is None:
        if given["made_by_version"] or given["batches"]:
            raise InputError("--made-by-version and --batches go with --made-by")
        return None
    batches = parse_batches(given["batches"]) if given["batches"] else None
    return JobOutput(given["made_by"], given["made_by_version"], batches)


def _milliseconds(text: str | None, option: str) -> int | None:
    """A time as Kafka has it."""
    time = parse_time(text, option)
    return None if time is None else round(time.timestamp() * 1000)
