"""Conditions in CEL: type-checked when a rule is loaded, evaluated within CEL's budget.

CEL has no unbounded loops, no side effects and no access to Python. Google's implementation stops
after 10,000 iterations of nested loops, rejects deeply nested expressions, and matches regular
expressions in linear time. The length is bounded here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from cel_expr_python import cel

from headwater.catalog.alerting.fields import FIELDS, Scope
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
_POSITION = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
# Comments and strings do not contain fields; raw strings have no escapes. The leftmost match wins,
# so that neither an apostrophe in a comment nor `//` in a string starts a match.
_QUOTES = ('"""', "'''", '"', "'")
_STRINGS = "|".join(
    [
        *(f"[bB]?[rR]{quote}.*?{quote}" for quote in _QUOTES),
        *(rf"[bB]?{quote}(?:\\.|[^\\])*?{quote}" for quote in _QUOTES),
    ]
)
_NOT_FIELDS = re.compile(rf"//[^\r\n]*|{_STRINGS}", re.DOTALL)
_WORDS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\s*\.\s*[A-Za-z_][A-Za-z0-9_]*)?")
# CEL's error for a variable without a value; any other error is a mistake in the condition.
_NO_VALUE = "No value with name"


class Truth(StrEnum):
    """The outcome of an evaluation."""

    TRUE = "true"
    FALSE = "false"
    NO_DATA = "no data"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """The outcome for one subject, the values of the fields, and the error."""

    truth: Truth
    value: str = ""
    problem: str | None = None


class Condition:
    """A compiled condition. Create it with `compile_condition`."""

    def __init__(self, text: str, scope: Scope, program: Any) -> None:
        self.text = text
        self.scope = scope
        self.fields = _fields_in(text)
        self._program = program

    def evaluate(self, values: Mapping[str, Any]) -> ConditionResult:
        """Evaluate the condition; it has no data if a field is missing or None."""
        known = {name: value for name, value in values.items() if value is not None}
        shown = _shown(self.fields, known)
        try:
            result = self._program.eval(data=known)
        except (RuntimeError, ValueError, TypeError, OverflowError) as error:
            # Also for a value that CEL can't represent, such as a string that is not UTF-8.
            return ConditionResult(Truth.ERROR, shown, _first_line(str(error)))
        value = result.value()
        if result.type() == cel.Type.BOOL:
            return ConditionResult(Truth.TRUE if value else Truth.FALSE, shown)
        if _NO_VALUE in str(value):
            return ConditionResult(Truth.NO_DATA, shown)
        return ConditionResult(Truth.ERROR, shown, _first_line(str(value)))


def compile_condition(text: str) -> Condition:
    """Compile and type-check a condition.

    Raises:
        BadConditionError: names the mistake; `line` and `column` are its position.
    """
    if len(text) > MAX_CHARACTERS:
        raise BadConditionError(
            f"the condition has {len(text)} characters; at most {MAX_CHARACTERS} are allowed",
            line=1,
            column=1,
        )
    for scope in Scope:
        program = _try(text, {Scope.SERVICE, scope})
        if program is not None:
            return _checked(text, scope, program)
    # Compile with the fields of all scopes, so that the error is not about a missing field.
    program = _compiled(text, frozenset(Scope))
    _checked(text, Scope.SERVICE, program)
    raise BadConditionError(
        "a condition can use fields of `job_run.` or of `dataset.`, not of both",
        line=1,
        column=1,
    )


def _checked(text: str, scope: Scope, program: Any) -> Condition:
    if program.return_type() != cel.Type.BOOL:
        kind = program.return_type().name().lower()
        raise BadConditionError(
            f"condition must be a boolean expression, got {kind}",
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
    """Standard CEL, plus comparisons of numbers of different types: `percentage > 20`.

    The checker allows those only for values of dynamic type, with which it would not detect
    unknown fields and wrong types; so the comparisons are declared again, with mixed types.
    """
    excluded = "".join(f'    - name: "{name}"\n' for name in _COMPARISONS)
    config = cel.NewEnvConfigFromYaml(f"name: headwater\nstdlib:\n  exclude_functions:\n{excluded}")
    variables = {each.name: _KINDS[each.kind] for each in FIELDS.values() if each.scope in scopes}
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
    positions = _POSITION.findall(text)
    if not positions:
        return BadConditionError(_first_line(text), line=1, column=1)
    line, column, reason = positions[0]
    reason = reason.removesuffix(" (in container '')")
    more = f" (and {len(positions) - 1} more)" if len(positions) > 1 else ""
    return BadConditionError(
        f"{reason[:300]}{more}",
        hint="docs/guides/alerts.md lists the fields of conditions",
        line=int(line),
        column=int(column),
    )


def _first_line(text: str) -> str:
    # Removes the status code: `INTERNAL: Iteration budget exceeded [INTERNAL]`.
    line = text.splitlines()[0] if text else "unknown"
    line = "".join(char if char.isprintable() else " " for char in line)
    return re.sub(r"^[A-Z_]+: |(?<!\s)\s*\[[A-Z_]+\]$", "", line)[:300]


def _fields_in(text: str) -> tuple[str, ...]:
    words = (re.sub(r"\s", "", word) for word in _WORDS.findall(_NOT_FIELDS.sub(" ", text)))
    return tuple(dict.fromkeys(word for word in words if word in FIELDS))


def _shown(fields: Iterable[str], values: Mapping[str, Any]) -> str:
    parts = [f"{name} = {_text(values[name])}" for name in fields if name in values]
    return ", ".join(parts)[:_MAX_VALUE_CHARACTERS]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.4g}"
    # Strings come from events: PostgreSQL accepts neither NUL nor lone surrogates.
    return "".join(char if char.isprintable() else " " for char in str(value))
