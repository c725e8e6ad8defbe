"""Finds the regular expressions of the product, and hostile texts for each of them."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from re import _constants as op
from re import _parser as parser
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src"
JAVA = ROOT / "java" / "src" / "main"
WEB = ROOT / "web" / "src"

_FUNCTIONS = {"match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
# Functions of Spark and the position of their pattern.
_SPARK = {"rlike": 0, "regexp_extract": 1, "regexp_replace": 1}
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
# Runs of one character, separators, brackets, digits, spaces, control and direction characters.
ALPHABET = "aZ09 _-.,:;/@#=+'\"\\()[]{}<>\n\t\x00\x1b\u202e\u0660\ue000"
_SUFFIXES = ("", "\x00", "\n!")


@dataclass(frozen=True)
class Expression:
    """A regular expression, where it is written, and the methods that are called on it."""

    where: str
    pattern: str | bytes
    flags: int
    methods: tuple[str, ...]


def python_expressions() -> Iterator[Expression]:
    """Of all calls of `re`, and of Spark's functions, in `src/headwater`."""
    for path in sorted(SOURCES.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        values: dict[str, Any] | None = None
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            found = _pattern_of(call)
            if found is None:
                continue
            pattern, flags = found
            if values is None:
                values = vars(importlib.import_module(_module(path)))
            where = f"{path.relative_to(ROOT)}:{call.lineno}"
            text = _value(pattern, values, where)
            if not isinstance(text, str | bytes):
                continue
            if isinstance(text, str):
                text = text.replace(r"\z", r"\Z")
            number = int(_value(flags, values, where)) if flags is not None else 0
            yield Expression(where, text, number, _methods(call, tree))


def _module(path: Path) -> str:
    parts = path.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _pattern_of(call: ast.Call) -> tuple[ast.expr, ast.expr | None] | None:
    if not isinstance(call.func, ast.Attribute) or not call.args:
        return None
    name, owner = call.func.attr, call.func.value
    named = {each.arg: each.value for each in call.keywords}
    if isinstance(owner, ast.Name) and owner.id == "re" and name in {"compile", *_FUNCTIONS}:
        position = 1 if name == "compile" else 3 if name in ("sub", "subn") else 2
        rest = call.args[position : position + 1]
        return call.args[0], named.get("flags", rest[0] if rest else None)
    if name in _SPARK and len(call.args) > _SPARK[name]:
        return call.args[_SPARK[name]], None
    return None


def _value(node: ast.expr, values: dict[str, Any], where: str) -> Any:
    try:
        return eval(compile(ast.Expression(node), where, "eval"), values)  # noqa: S307
    except NameError as error:
        # `expectation.pattern`: the operator's own, evaluated by Spark.
        if "expectation" in str(error):
            return None
        raise AssertionError(f"{where}: make the pattern a constant of the module") from error


def _methods(call: ast.Call, tree: ast.Module) -> tuple[str, ...]:
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr in _FUNCTIONS:
        return (call.func.attr,)
    if call.func.attr in _SPARK:
        return ("search",)
    names = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and node.value is call
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in names
        and node.attr in _FUNCTIONS
    }
    return tuple(sorted(used)) or ("fullmatch", "search")


_JAVA_CONSTANT = re.compile(r'String (\w+) =\s*("(?:[^"\\]|\\.)*");')
_JAVA_CALL = re.compile(r"Pattern\.compile\(((?:[^()\"]|\"(?:[^\"\\]|\\.)*\")*)\)")
_JAVA_PART = re.compile(r'"(?:[^"\\]|\\.)*"|\w+')


def java_expressions() -> Iterator[Expression]:
    """Of all calls of `Pattern.compile`, in the syntax of Python."""
    for path in sorted(JAVA.rglob("*.java")):
        text = path.read_text("utf-8")
        constants = {name: ast.literal_eval(value) for name, value in _JAVA_CONSTANT.findall(text)}
        assert text.count("Pattern.compile(") == len(_JAVA_CALL.findall(text)), path
        for call in _JAVA_CALL.finditer(text):
            parts = [
                ast.literal_eval(part) if part.startswith('"') else constants[part]
                for part in _JAVA_PART.findall(call[1])
            ]
            where = f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, call.start()) + 1}"
            pattern = "".join(parts).replace("(?<", "(?P<")
            searched = ("search",) if ".find()" in text else ()
            yield Expression(where, pattern, 0, ("fullmatch", *searched))


_WEB_LITERAL = re.compile(
    r"(?<=[(=,!&|?:])\s?/((?:[^/\\\n*]|\\.)(?:[^/\\\n]|\\.)*)/([gimsuy]*)[.,)]"
)


def web_expressions() -> Iterator[Expression]:
    """Of all literals in the sources of the page."""
    for path in sorted([*WEB.rglob("*.ts"), *WEB.rglob("*.tsx")]):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            assert "new RegExp(" not in line, f"{path}:{number}: use a literal"
            for literal in _WEB_LITERAL.finditer(line):
                where = f"{path.relative_to(ROOT)}:{number}"
                yield Expression(where, literal[1].replace(r"\/", "/"), 0, ("search",))


@dataclass(frozen=True)
class Hostile:
    """A text of any length: the middle part is repeated."""

    prefix: str
    pump: str
    suffix: str


def hostile_texts(expression: Expression) -> set[Hostile]:
    """Texts that reach each repetition of the pattern, repeat it, and then do not match."""
    pattern = expression.pattern
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    tree = parser.parse(text, expression.flags)
    literals = {chr(value) for value in _literals(tree) if value < 0xD800}
    characters = "".join(dict.fromkeys([*sorted(literals), *ALPHABET]))
    found = {Hostile("", each, suffix) for each in ALPHABET for suffix in _SUFFIXES}
    for prefix, pump, rest in _repetitions(list(tree), "", "", characters):
        found |= {Hostile(prefix, pump, suffix) for suffix in (*_SUFFIXES, f"{rest}\x00")}
    return found


def _literals(tree: Iterable[Any]) -> Iterator[int]:
    for name, value in tree:
        if name in (op.LITERAL, op.NOT_LITERAL):
            yield value
        elif name is op.IN:
            yield from _literals(value)
        for inner in _inner(name, value):
            yield from _literals(inner)


def _inner(name: Any, value: Any) -> list[Any]:
    """The sequences inside a token."""
    if name in _REPEATS:
        return [value[2]]
    if name is op.SUBPATTERN:
        return [value[3]]
    if name is op.BRANCH:
        return list(value[1])
    if name in (op.ASSERT, op.ASSERT_NOT):
        return [value[1]]
    return [value] if name is op.ATOMIC_GROUP else []


def _repetitions(
    tokens: list[Any], prefix: str, after: str, characters: str
) -> Iterator[tuple[str, str, str]]:
    for number, (name, value) in enumerate(tokens):
        following = _example(tokens[number + 1 :], characters) + after
        if name in _REPEATS and value[1] >= 8:
            inner = list(value[2])
            single = [c for c in characters if any(_takes(token, c) for token in _flat(inner))]
            # The characters of the pattern itself come first.
            pumps = [*single[:10], _example(inner, characters), following[:40], following[:-1][:40]]
            yield from ((prefix, pump, following) for pump in dict.fromkeys(pumps) if pump)
        for sequence in _inner(name, value):
            yield from _repetitions(list(sequence), prefix, following, characters)
        prefix += _example([(name, value)], characters)


def _flat(tokens: Iterable[Any]) -> Iterator[Any]:
    for name, value in tokens:
        yield name, value
        for sequence in _inner(name, value):
            yield from _flat(sequence)


def _example(tokens: Iterable[Any], characters: str) -> str:
    """A text that the tokens match, with each repetition at least once."""
    text = ""
    for name, value in tokens:
        if name in _REPEATS:
            text += _example(value[2], characters) * min(max(value[0], 1), value[1])
        elif name is op.BRANCH:
            text += _example(value[1][0], characters)
        elif name in (op.SUBPATTERN, op.ATOMIC_GROUP):
            text += _example(_inner(name, value)[0], characters)
        else:
            text += next((c for c in f"a0{characters}" if _takes((name, value), c)), "")
    return text


_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    op.CATEGORY_DIGIT: str.isdecimal,
    op.CATEGORY_SPACE: str.isspace,
    op.CATEGORY_WORD: lambda c: c.isalnum() or c == "_",
}
_NOT_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    op.CATEGORY_NOT_DIGIT: op.CATEGORY_DIGIT,
    op.CATEGORY_NOT_SPACE: op.CATEGORY_SPACE,
    op.CATEGORY_NOT_WORD: op.CATEGORY_WORD,
}


def _takes(token: Any, character: str) -> bool:
    """Whether a token for one character matches it."""
    name, value = token
    if name is op.LITERAL:
        return bool(ord(character) == value)
    if name is op.NOT_LITERAL:
        return bool(ord(character) != value)
    if name is op.ANY:
        return character != "\n"
    if name is op.RANGE:
        return bool(value[0] <= ord(character) <= value[1])
    if name is op.CATEGORY:
        if value in _NOT_CATEGORIES:
            return not _CATEGORIES[_NOT_CATEGORIES[value]](character)
        return _CATEGORIES[value](character)
    if name is op.IN:
        listed = [each for each in value if each[0] is not op.NEGATE]
        return any(_takes(each, character) for each in listed) is (len(listed) == len(value))
    return False
