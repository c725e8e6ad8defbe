"""The rules file: which alerts there are. YAML, read without ever building objects from it.

    alerts:
      - name: lineage_job_failure
        condition: job_run.state == 'FAILED'
        notification: slack_data_team

Only the tree of texts is read, so that neither tags nor nested aliases can do anything; size,
number and depth are bounded. Every mistake is told with its line.
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
# Control characters but for tabs and ends of lines, and halves of characters.
_UNPRINTED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_MAX_SECONDS = 30 * 86_400.0
_MAX_TEXT = 2000
_MAX_CHANNELS = 20
_UNITS = (86_400, 3_600, 60, 1)


@dataclass(frozen=True, slots=True)
class Rule:
    """One alert of the file."""

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
    """All alerts of a file.

    Raises:
        AlertRulesError: names the file and the line.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise AlertRulesError(
            f"the rules file {path} can't be read: {error.strerror}",
            hint="HEADWATER_ALERTS__FILE says where it lies",
        ) from None
    if len(content) > MAX_BYTES:
        raise AlertRulesError(f"the rules file {path} has more than {MAX_BYTES} bytes")
    if not content.strip():
        # So it looks to who reads while somebody writes it; all alerts would end, and begin anew.
        raise AlertRulesError(
            f"the rules file {path} is empty", hint="one without alerts has the line `alerts: []`"
        )
    return parse_rules(content, str(path))


def parse_rules(content: bytes, where: str) -> list[Rule]:
    """The same for its text.

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
        raise reader.wrong(listed, "`alerts` must be a list")
    if len(listed.value) > MAX_RULES:
        raise reader.wrong(listed, f"there are more than {MAX_RULES} alerts")
    rules: dict[str, Rule] = {}
    for node in listed.value:
        rule = reader.rule(node)
        if rule.name in rules:
            raise reader.wrong(
                node, f"alert {rule.name!r} is there already, in line {rules[rule.name].line}"
            )
        rules[rule.name] = rule
    return list(rules.values())


def parse_duration(text: str) -> float:
    """`90s`, `5m`, `1h30m`, `2d`, or a number of seconds.

    Raises:
        ValueError: it is none, or longer than 30 days.
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
    """Reads nodes, and tells where a mistake is."""

    def __init__(self, where: str) -> None:
        self._where = where

    def wrong(self, node: Any, text: str, hint: str | None = None) -> AlertRulesError:
        line = node.start_mark.line + 1
        return AlertRulesError(f"{self._where}, line {line}: {text}", hint=hint, line=line)

    def mapping(self, node: Any, what: str, keys: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise self.wrong(node, f"{what} must be a mapping with {', '.join(keys)}")
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if name not in keys:
                shown = repr(name[:50])
                raise self.wrong(key, f"unknown key {shown}", f"known are: {', '.join(keys)}")
            if name in found:
                raise self.wrong(key, f"{name!r} is there twice")
            found[name] = value
        return found

    def rule(self, node: Any) -> Rule:
        found = self.mapping(node, "an alert", _KEYS)
        for needed in ("name", "condition"):
            if needed not in found:
                raise self.wrong(node, f"an alert needs {needed!r}")
        name = self._text(found, "name")
        if not _NAME.fullmatch(name):
            raise self.wrong(
                found["name"],
                "a name has 1 to 100 letters, digits, spaces, `_`, `-` or `.`",
            )
        severity = self._text(found, "severity") or "warning"
        if severity not in SEVERITIES:
            raise self.wrong(found["severity"], f"severity must be {', '.join(SEVERITIES)}")
        return Rule(
            name,
            self._condition(found["condition"], name),
            self._channels(found.get("notification")),
            self._seconds(found, "for"),
            self._seconds(found, "keep_firing_for"),
            severity,
            self._text(found, "summary"),
            self._text(found, "runbook"),
            node.start_mark.line + 1,
        )

    def _text(self, found: dict[str, Any], key: str) -> str:
        node = found.get(key)
        if node is None:
            return ""
        if not isinstance(node, yaml.ScalarNode):
            raise self.wrong(node, f"{key!r} must be a text")
        if len(node.value) > _MAX_TEXT:
            raise self.wrong(node, f"{key!r} has more than {_MAX_TEXT} characters")
        return self._clean(node, repr(key)).strip()

    def _clean(self, node: Any, what: str) -> str:
        """Escapes in YAML can make characters that no message and no database takes."""
        bad = _UNPRINTED.search(node.value)
        if bad is not None:
            raise self.wrong(node, f"{what} holds the character U+{ord(bad[0]):04X}")
        return str(node.value)

    def _condition(self, node: Any, name: str) -> Condition:
        if not isinstance(node, yaml.ScalarNode):
            raise self.wrong(node, f"the condition of {name!r} must be a text")
        try:
            return compile_condition(self._clean(node, f"the condition of {name!r}"))
        except BadConditionError as error:
            line, column = error.facts["line"], error.facts["column"]
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
            raise self.wrong(node, f"more than {_MAX_CHANNELS} channels")
        names: list[str] = []
        for each in nodes:
            if not isinstance(each, yaml.ScalarNode) or not each.value.strip():
                raise self.wrong(each, "a notification is the name of a channel, or a list of them")
            # As settings are named, in which case is no difference.
            names.append(self._clean(each, "a notification").strip().lower()[:100])
        return tuple(dict.fromkeys(names))

    def _seconds(self, found: dict[str, Any], key: str) -> float:
        text = self._text(found, key)
        if not text:
            return 0.0
        try:
            return parse_duration(text)
        except ValueError as error:
            raise self.wrong(found[key], f"{key!r} {error}, not {text[:50]!r}") from None
