"""Reads the rules file, which defines the alerts. No objects are constructed from the YAML.

    alerts:
      - name: lineage_job_failure
        condition: job_run.state == 'FAILED'
        notification: slack_data_team

Only the tree of scalars is read, so that tags and nested aliases have no effect; size, number and
depth are bounded. Every error names the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headwater.catalog.alerting.conditions import Condition, compile_condition
from headwater.errors import AlertRulesError, BadConditionError

MAX_BYTES = 256 * 1024
MAX_RULES = 500
SEVERITIES = ("info", "warning", "critical")
_KEYS = (
    "name",
    "condition",
    "notification",
    "for",
    "keep_firing_for",
    "severity",
    "summary",
    "runbook",
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\- ]{0,99}")
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
# Control characters except tabs and line ends, and lone surrogates.
_UNPRINTED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_MAX_SECONDS = 30 * 86_400.0
_MAX_TEXT = 2000
_MAX_CHANNELS = 20
_UNITS = (86_400, 3_600, 60, 1)


@dataclass(frozen=True, slots=True)
class Rule:
    """One alert."""

    name: str
    condition: Condition
    channels: tuple[str, ...] = ()
    hold_seconds: float = 0.0
    keep_seconds: float = 0.0
    severity: str = "warning"
    summary: str = ""
    runbook: str = ""
    line: int = 0


def read_rules(path: Path) -> list[Rule]:
    """Read all alerts of a file.

    Raises:
        AlertRulesError: names the file and the line.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise AlertRulesError(
            f"the rules file {path} can't be read: {error.strerror}",
            hint="HEADWATER_ALERTS__FILE sets its path",
        ) from None
    if len(content) > MAX_BYTES:
        raise AlertRulesError(f"the rules file {path} has more than {MAX_BYTES} bytes")
    if not content.strip():
        # A write may be in progress; without this check all alerts would end, then fire again.
        raise AlertRulesError(
            f"the rules file {path} is empty", hint="write `alerts: []` for a file without alerts"
        )
    return parse_rules(content, str(path))


def parse_rules(content: bytes, where: str) -> list[Rule]:
    """Read all alerts of a file's content.

    Raises:
        AlertRulesError: names the line.
    """
    tree = _compose(content, where)
    if tree is None:
        return []
    reader = _Reader(where)
    top = reader.mapping(tree, "the file", ("alerts",))
    listed = top.get("alerts")
    if listed is None or _is_null(listed):
        return []
    if not isinstance(listed, yaml.SequenceNode):
        raise reader.error(listed, "`alerts` must be a list")
    if len(listed.value) > MAX_RULES:
        raise reader.error(listed, f"there are more than {MAX_RULES} alerts")
    rules: dict[str, Rule] = {}
    for node in listed.value:
        rule = reader.rule(node)
        if rule.name in rules:
            raise reader.error(
                node,
                f"duplicate alert {rule.name!r}, first defined in line {rules[rule.name].line}",
            )
        rules[rule.name] = rule
    return list(rules.values())


def parse_duration(text: str) -> float:
    """`90s`, `5m`, `1h30m`, `2d`, or a number of seconds.

    Raises:
        ValueError: not a duration, or longer than 30 days.
    """
    match = _DURATION.fullmatch(text)
    if text.isascii() and text.isdigit() and len(text) < 9:
        seconds = float(text)
    elif text and len(text) < 40 and match is not None:
        counts = zip(match.groups(), _UNITS, strict=True)
        seconds = float(sum(int(count) * unit for count, unit in counts if count))
    else:
        raise ValueError("must be a time such as 90s, 5m, 1h30m or 2d")
    if seconds > _MAX_SECONDS:
        raise ValueError("must be at most 30d")
    return seconds


def _compose(content: bytes, where: str) -> Any:
    try:
        return yaml.compose(content, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise AlertRulesError(
            f"{where}, line {line}: not YAML: {error.problem or error.context}", line=line
        ) from None
    except (yaml.YAMLError, UnicodeError):
        raise AlertRulesError(f"{where}: not YAML in UTF-8") from None
    except RecursionError:
        raise AlertRulesError(f"{where}: nests too deep") from None


def _is_null(node: Any) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


class _Reader:
    """Reads YAML nodes; errors name the line."""

    def __init__(self, where: str) -> None:
        self._where = where

    def error(self, node: Any, text: str, hint: str | None = None) -> AlertRulesError:
        line = node.start_mark.line + 1
        return AlertRulesError(f"{self._where}, line {line}: {text}", hint=hint, line=line)

    def mapping(self, node: Any, what: str, keys: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise self.error(node, f"{what} must be a mapping with {', '.join(keys)}")
        entries: dict[str, Any] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if name not in keys:
                shown = repr(name[:50])
                raise self.error(key, f"unknown key {shown}", f"known keys: {', '.join(keys)}")
            if name in entries:
                raise self.error(key, f"duplicate key {name!r}")
            entries[name] = value
        return entries

    def rule(self, node: Any) -> Rule:
        entries = self.mapping(node, "an alert", _KEYS)
        for needed in ("name", "condition"):
            if needed not in entries:
                raise self.error(node, f"an alert needs {needed!r}")
        name = self._text(entries, "name")
        if not _NAME.fullmatch(name):
            raise self.error(
                entries["name"],
                "a name has 1 to 100 letters, digits, spaces, `_`, `-` or `.`",
            )
        severity = self._text(entries, "severity") or "warning"
        if severity not in SEVERITIES:
            raise self.error(entries["severity"], f"severity must be {', '.join(SEVERITIES)}")
        return Rule(
            name,
            self._condition(entries["condition"], name),
            self._channels(entries.get("notification")),
            self._seconds(entries, "for"),
            self._seconds(entries, "keep_firing_for"),
            severity,
            self._text(entries, "summary"),
            self._text(entries, "runbook"),
            node.start_mark.line + 1,
        )

    def _text(self, entries: dict[str, Any], key: str) -> str:
        node = entries.get(key)
        if node is None:
            return ""
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(node, f"{key!r} must be a string")
        if len(node.value) > _MAX_TEXT:
            raise self.error(node, f"{key!r} has more than {_MAX_TEXT} characters")
        return self._clean(node, repr(key)).strip()

    def _clean(self, node: Any, what: str) -> str:
        """Reject characters, from YAML escapes, that messages and PostgreSQL do not support."""
        bad = _UNPRINTED.search(node.value)
        if bad is not None:
            raise self.error(node, f"{what} contains the character U+{ord(bad[0]):04X}")
        return str(node.value)

    def _condition(self, node: Any, name: str) -> Condition:
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(node, f"the condition of {name!r} must be a string")
        try:
            return compile_condition(self._clean(node, f"the condition of {name!r}"))
        except BadConditionError as error:
            line, column = error.line, error.column
            raise AlertRulesError(
                f"{self._where}, line {node.start_mark.line + 1}: condition of {name!r}, "
                f"position {line}:{column}: {error.message}",
                hint=error.hint,
                line=node.start_mark.line + 1,
                alert=name,
                position=f"{line}:{column}",
            ) from None

    def _channels(self, node: Any) -> tuple[str, ...]:
        if node is None or _is_null(node):
            return ()
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if len(nodes) > _MAX_CHANNELS:
            raise self.error(node, f"more than {_MAX_CHANNELS} channels")
        names: list[str] = []
        for each in nodes:
            if not isinstance(each, yaml.ScalarNode) or not each.value.strip():
                raise self.error(each, "a notification is the name of a channel, or a list of them")
            # Channel names are case-insensitive, as setting names are.
            names.append(self._clean(each, "a notification").strip().lower()[:100])
        return tuple(dict.fromkeys(names))

    def _seconds(self, entries: dict[str, Any], key: str) -> float:
        text = self._text(entries, key)
        if not text:
            return 0.0
        try:
            return parse_duration(text)
        except ValueError as error:
            raise self.error(entries[key], f"{key!r} {error}, not {text[:50]!r}") from None
