"""Builds the request of a replay from the options of `replay run`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headwater.cli.parsing import parse_batches, parse_time
from headwater.errors import InputError
from headwater.jobs import TRANSFORMS
from headwater.model import Address, JobOutput
from headwater.replay.plan import table_target
from headwater.replay.request import Request, build_request
from headwater.replay.selection import Selection, parse_offsets
from headwater.replay.transform import load_transform
from headwater.settings import Settings


def parse_request(settings: Settings, options: dict[str, Any]) -> Request:
    """The request that the options state.

    Raises:
        InputError: the options contradict each other, or select nothing.
    """
    name = options["transform"]
    transform = load_transform(name, TRANSFORMS)
    if options["job_name"]:
        transform = replace(transform, job_name=options["job_name"])
    if options["topic"] and options["table"]:
        raise InputError("--to and --to-table exclude each other")
    target = table_target(options["table"]) if options["table"] else options["topic"]
    target = target or transform.output_topic
    if not target:
        raise InputError(f"{name!r} has no output topic", hint="set it with --to")
    return build_request(
        name.replace("-", "_") if name in TRANSFORMS else name,
        transform,
        _selection(options, transform.input_topic),
        target,
        settings,
        options,
    )


def _selection(options: dict[str, Any], input_topic: str | None) -> Selection:
    topic, offsets = options["source"] or input_topic, None
    if options["offsets"] is not None:
        topic, offsets = parse_offsets(options["offsets"])
        if options["source"] not in (None, topic):
            raise InputError(f"--from names {options['source']!r}, --offsets {topic!r}")
    if topic is None:
        raise InputError(f"{options['transform']!r} has no input topic", hint="set it with --from")
    selection = Selection(
        topic=topic,
        offsets=offsets,
        since_ms=_milliseconds(options["since"], "--since"),
        until_ms=_milliseconds(options["until"], "--until"),
        key=options["key"],
        where=options["where"],
        inputs_of=tuple(map(Address.parse, options["outputs"])),
        made_by=_made_by(options),
    )
    if not selection.selects:
        raise InputError(
            "no option selects records",
            hint="`headwater replay run --help` lists the options; all records are "
            f'--offsets \'{{"{topic}":{{"0":[-2,-1]}}}}\'',
        )
    return selection


def _made_by(options: dict[str, Any]) -> JobOutput | None:
    if options["made_by"] is None:
        if options["made_by_version"] or options["batches"]:
            raise InputError("--made-by-version and --batches require --made-by")
        return None
    batches = parse_batches(options["batches"]) if options["batches"] else None
    return JobOutput(options["made_by"], options["made_by_version"], batches)


def _milliseconds(text: str | None, option: str) -> int | None:
    """A time as a Kafka timestamp."""
    time = parse_time(text, option)
    return None if time is None else round(time.timestamp() * 1000)
