"""The rule of a join next to its checkpoint, for queries without Spark and for the next start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from headwater.errors import CheckpointError, HeadwaterError
from headwater.join.rule import JoinRule, JoinSide
from headwater.join.spans import millis
from headwater.model.local_files import write_durably

RULE_FILE = Path("headwater") / "join.json"


def read_rule(checkpoint: Path) -> JoinRule | None:
    """The rule of the join that this checkpoint belongs to; None if there is none."""
    try:
        return rule_of_json(json.loads((checkpoint / RULE_FILE).read_text()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, HeadwaterError):
        return None


def save_rule(checkpoint: Path, rule: JoinRule) -> None:
    """Store the rule next to the checkpoint, before the query starts.

    Bounds and delays may change between starts; all else determines the state.

    Raises:
        CheckpointError: the checkpoint belongs to another join.
    """
    stored = read_rule(checkpoint)
    if stored is not None:
        for (what, old), (_, new) in zip(_fixed(stored), _fixed(rule), strict=True):
            if old != new:
                raise CheckpointError(
                    f"{checkpoint} belongs to a join with {what} {old}, not {new}",
                    hint="choose another --checkpoint",
                    checkpoint=str(checkpoint),
                )
    write_durably(checkpoint / RULE_FILE, json.dumps(rule_as_json(rule)))


def _fixed(rule: JoinRule) -> list[tuple[str, str]]:
    """What can't change without another state."""
    fixed = []
    for which, side in (("left", rule.left), ("right", rule.right)):
        fields = ", ".join(f"{name} {kind}" for name, kind in side.fields.items())
        fixed += [
            (f"the {which} topic", side.topic),
            (f"the key of {side.topic}:", ", ".join(side.keys)),
            (f"the time of {side.topic}:", side.time),
            (f"the fields of {side.topic}:", fields),
        ]
    return [*fixed, ("how:", rule.how), ("matches:", rule.matches)]


def rule_as_json(rule: JoinRule) -> dict[str, Any]:
    """The content of the file; durations in milliseconds."""
    return {
        "left": _side_as_json(rule.left),
        "right": _side_as_json(rule.right),
        "lower_ms": millis(rule.lower),
        "upper_ms": millis(rule.upper),
        "how": rule.how,
        "matches": rule.matches,
    }


def _side_as_json(side: JoinSide) -> dict[str, Any]:
    return {
        "topic": side.topic,
        "name": side.name,
        "fields": dict(side.fields),
        "key": list(side.keys),
        "time": side.time,
        "required": list(side.required),
        "delay_ms": millis(side.delay),
        "json": side.parse is None,
    }


def rule_of_json(content: Mapping[str, Any]) -> JoinRule:
    """The inverse of `rule_as_json`; raises KeyError, TypeError or InputError for other content."""
    if "visits" in content:
        return _former_rule(content)
    return JoinRule(
        _side_of_json(content["left"]),
        _side_of_json(content["right"]),
        timedelta(milliseconds=content["lower_ms"]),
        timedelta(milliseconds=content["upper_ms"]),
        how=content["how"],
        matches=content["matches"],
    )


def _side_of_json(content: Mapping[str, Any]) -> JoinSide:
    return JoinSide(
        content["topic"],
        fields=content["fields"],
        key=tuple(content["key"]),
        time=content["time"],
        watermark=timedelta(milliseconds=content["delay_ms"]),
        required=tuple(content["required"]),
        parse=None if content["json"] else _unknown_format,
        name=content["name"],
    )


def _unknown_format(_: Any) -> Any:
    raise NotImplementedError("only the program of the join can parse its records")


def _former_rule(content: Mapping[str, Any]) -> JoinRule:
    """The format of `visits_ads_enrichment_job` while it was the only join."""
    visits = {"visit_id": "string", "event_time": "timestamp", "page": "string"}
    ads = {"page": "string", "display_time": "timestamp", "campaign_name": "string"}
    left, right = (
        JoinSide(
            content[name],
            fields=fields,
            key="page",
            time=time,
            watermark=timedelta(milliseconds=content[f"{name}_delay_ms"]),
            required=tuple(fields),
            name=name,
        )
        for name, fields, time in (("visits", visits, "event_time"), ("ads", ads, "display_time"))
    )
    return JoinRule(
        left,
        right,
        timedelta(milliseconds=content["ad_from_ms"]),
        timedelta(milliseconds=content["ad_until_ms"]),
        how="left_outer",
        matches=content["matches"],
    )
