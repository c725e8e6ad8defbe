"""Conditions in CEL: checked when a rule is loaded, evaluated within CEL's own budget.

CEL has no loops without end, no side effects and no way to Python. Google's implementation stops
after 10,000 steps of loops within loops, refuses texts that nest too deep, and matches regular
expressions in linear time. Length is bounded here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from cel_expr_python import cel

from headwater.catalog.alerting.fields import NAMES, Scope
from headwater.errors import BadConditionError

MAX_CHARACTERS = 4096
_MAX_VALUE_CHARACTERS = 300
_COMPARISONS = {
    "_<_": "less",
    "_<=_": "less_equals",
    "_>_": "greater",
    "_>=_": "greater_equals",
}
_KINDS = {
    "bool": cel.Type.BOOL,
    "int": cel.Type.INT,
    "double": cel.Type.DOUBLE,
    "string": cel.Type.STRING,
}
_PLACE = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
# What names don't stand in: comments and texts, of which raw ones know no escapes. What begins
# first holds, so that neither an apostrophe in a comment nor `//` in a text begins anything.
_QUOTES = ('"""', "'''", '"', "'")
_TEXTS = "|".join(
    [
        *(f"[bB]?[rR]{quote}.*?{quote}" for quote in _QUOTES),
        *(rf"[bB]?{quote}(?:\\.|[^\\])*?{quote}" for quote in _QUOTES),
    ]
)
_NOT_NAMES = re.compile(rf"//[^\r\n]*|{_TEXTS}", re.DOTALL)
_WORDS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\s*\.\s*[A-Za-z_][A-Za-z0-9_]*)?")
# What CEL says of a variable without a value; anything else is a mistake of the condition.
_NO_VALUE = "No value with name"


class Truth(StrEnum):
    """What an evaluation came to."""

    TRUE = "true"
    FALSE = "false"
    NO_DATA = "no data"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome for one subject, the values that led to it, and what went wrong."""

    truth: Truth
    value: str = ""
    problem: str | None = None


class Condition:
    """A condition that was checked. Build it with `compile_condition`."""

    def __init__(self, text: str, scope: Scope, program: Any) -> None:
        self.text = text
        self.scope = scope
        self.names = _names_in(text)
        self._program = program

    def evaluate(self, values: Mapping[str, Any]) -> Verdict:
        """Whether it holds; a name without a value (or None) leaves it without data."""
        told = {name: value for name, value in values.items() if value is not None}
        shown = _shown(self.names, told)
        try:
            found = self._program.eval(data=told)
        except (RuntimeError, ValueError, TypeError, OverflowError) as error:
            # Also a value that CEL can't hold, such as a text that is no UTF-8.
            return Verdict(Truth.ERROR, shown, _first_line(str(error)))
        value = found.value()
        if found.type() == cel.Type.BOOL:
            return Verdict(Truth.TRUE if value else Truth.FALSE, shown)
        if _NO_VALUE in str(value):
            return Verdict(Truth.NO_DATA, shown)
        return Verdict(Truth.ERROR, shown, _first_line(str(value)))


def compile_condition(text: str) -> Condition:
    """Check a condition.

    Raises:
        BadConditionError: says what is wrong and where; the facts hold `line` and `column`.
    """
    if len(text) > MAX_CHARACTERS:
        raise BadConditionError(
            f"the condition has {len(text)} characters; at most {MAX_CHARACTERS} are taken",
            line=1,
            column=1,
        )
    for scope in Scope:
        program = _try(text, {Scope.SERVICE, scope})
        if program is not None:
            return _checked(text, scope, program)
    # With all names, so that the message is about the text and not about a scope.
    program = _compiled(text, frozenset(Scope))
    _checked(text, Scope.SERVICE, program)
    raise BadConditionError(
        "a condition is about jobs or about datasets, not both: it uses `job_run.` and `dataset.`",
        line=1,
        column=1,
    )


def _checked(text: str, scope: Scope, program: Any) -> Condition:
    if program.return_type() != cel.Type.BOOL:
        kind = program.return_type().name().lower()
        raise BadConditionError(
            f"the condition is no question: it gives a value of kind {kind}, not bool",
            line=1,
            column=1,
        )
    return Condition(text, scope, program)


def _try(text: str, scopes: Iterable[Scope]) -> Any:
    try:
        return _compiled(text, frozenset(scopes))
    except BadConditionError:
        return None


def _compiled(text: str, scopes: frozenset[Scope]) -> Any:
    try:
        return _environment(scopes).compile(text)
    except RuntimeError as error:
        raise _bad(str(error)) from None


@cache
def _environment(scopes: frozenset[Scope]) -> Any:
    """CEL as it is, but numbers of different kinds can be compared: `percentage > 20`.

    The checker knows that only for values whose kind is not known beforehand, which would let
    wrong names and kinds through; so its comparisons are declared anew, with the mixed ones.
    """
    excluded = "".join(f'    - name: "{name}"\n' for name in _COMPARISONS)
    config = cel.NewEnvConfigFromYaml(f"name: headwater\nstdlib:\n  exclude_functions:\n{excluded}")
    variables = {each.name: _KINDS[each.kind] for each in NAMES.values() if each.scope in scopes}
    return cel.NewEnv(config=config, variables=variables, functions=_comparisons())


def _comparisons() -> list[Any]:
    kinds = {
        "bool": cel.Type.BOOL,
        "int64": cel.Type.INT,
        "uint64": cel.Type.UINT,
        "double": cel.Type.DOUBLE,
        "string": cel.Type.STRING,
        "bytes": cel.Type.BYTES,
        "timestamp": cel.Type.TIMESTAMP,
        "duration": cel.Type.DURATION,
    }
    pairs = {name: (kind, kind) for name, kind in kinds.items()}
    numbers = ("int64", "uint64", "double")
    pairs |= {f"{a}_{b}": (kinds[a], kinds[b]) for a in numbers for b in numbers if a != b}
    return [
        cel.FunctionDecl(
            operator,
            [
                cel.Overload(f"{word}_{name}", return_type=cel.Type.BOOL, parameters=list(pair))
                for name, pair in pairs.items()
            ],
        )
        for operator, word in _COMPARISONS.items()
    ]


def _bad(text: str) -> BadConditionError:
    found = _PLACE.findall(text)
    if not found:
        return BadConditionError(_first_line(text), line=1, column=1)
    line, column, reason = found[0]
    reason = reason.removesuffix(" (in container '')")
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return BadConditionError(
        f"{reason[:300]}{more}",
        hint="docs/guides/alerts.md lists the names that conditions know",
        line=int(line),
        column=int(column),
    )


def _first_line(text: str) -> str:
    # `INTERNAL: Iteration budget exceeded [INTERNAL]`: the code says nothing to a person.
    line = text.splitlines()[0] if text else "unknown"
    line = "".join(mark if mark.isprintable() else " " for mark in line)
    return re.sub(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$", "", line)[:300]


def _names_in(text: str) -> tuple[str, ...]:
    words = (re.sub(r"\s", "", word) for word in _WORDS.findall(_NOT_NAMES.sub(" ", text)))
    return tuple(dict.fromkeys(word for word in words if word in NAMES))


def _shown(names: Iterable[str], values: Mapping[str, Any]) -> str:
    parts = [f"{name} = {_text(values[name])}" for name in names if name in values]
    return ", ".join(parts)[:_MAX_VALUE_CHARACTERS]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.4g}"
    # Texts come from events: a database takes neither a NUL nor half a character.
    return "".join(mark if mark.isprintable() else " " for mark in str(value))
