"""The error tree: its drawing, docstrings and exit codes."""

from __future__ import annotations

import ast
import importlib
import pickle
import re
from pathlib import Path

import pytest

import headwater
from headwater import errors
from headwater.errors import HeadwaterError

PACKAGE = Path(headwater.__file__).parent


def drawn() -> dict[str, tuple[str | None, int]]:
    """Class -> (parent, exit code), as drawn in the docstring of `errors`."""
    row = re.compile(r"^    (?P<lead>[│├└─ ]*)(?P<name>\w+)(?:.* exit (?P<exit>\d))?")
    found: dict[str, tuple[str | None, int]] = {}
    ancestors: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := row.match(line):
            del ancestors[len(match["lead"]) // 4 :]
            parent = ancestors[-1] if ancestors else None
            inherited = found[parent][1] if parent else 1
            assert match["name"] not in found, "drawn twice"
            found[match["name"]] = (parent, int(match["exit"] or inherited))
            ancestors.append(match["name"])
    return found


def defined() -> dict[str, tuple[str, str]]:
    """Class -> (module, first base), for every public error of the package."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.bases and node.name[0] != "_":
                base = ast.unparse(node.bases[0]).rpartition(".")[2]
                if base.endswith(("Error", "Exception")):
                    assert node.name not in found, "two errors of one name"
                    found[node.name] = (".".join(parts), base)
    return found


DEFINED = defined()


def error_class(name: str) -> type[HeadwaterError]:
    found = getattr(importlib.import_module(DEFINED[name][0]), name)
    assert issubclass(found, HeadwaterError)
    return found  # type: ignore[no-any-return]


every_error = pytest.mark.parametrize("name", DEFINED)


def test_the_tree_is_complete() -> None:
    parents = {name: None if base == "Exception" else base for name, (_, base) in DEFINED.items()}
    assert {name: parent for name, (parent, _) in drawn().items()} == parents


def test_the_tree_names_the_modules_of_errors_that_are_defined_elsewhere() -> None:
    lines = (errors.__doc__ or "").splitlines()
    for name, (module, _) in DEFINED.items():
        if module != errors.__name__:
            line = next(line for line in lines if f" {name} " in line)
            assert f"`{module.removeprefix('headwater.')}`" in line


@every_error
def test_the_exit_code_is_the_drawn_one(name: str) -> None:
    assert error_class(name).exit_code == drawn()[name][1]


@every_error
def test_the_name_ends_in_error(name: str) -> None:
    assert name.endswith("Error")


@every_error
def test_every_error_has_a_docstring(name: str) -> None:
    assert (error_class(name).__dict__["__doc__"] or "").strip().endswith(".")


@every_error
def test_message_hint_and_attributes_survive_pickling(name: str) -> None:
    # Spark's Python workers and process pools pickle errors.
    error = error_class(name)("what happened: 7", hint="change it", value=7, names=("a", "b"))
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - pickled in the line above
    assert type(copy) is type(error)
    assert (str(copy), copy.message) == ("what happened: 7", "what happened: 7")
    assert (copy.hint, copy.attributes) == ("change it", {"value": 7, "names": ("a", "b")})
    assert (vars(copy)["value"], vars(copy)["names"]) == (7, ("a", "b"))


def test_hint_and_attributes_are_optional() -> None:
    error = HeadwaterError("what happened")
    assert (error.hint, error.attributes, error.exit_code) == (None, {}, 1)


def test_input_errors_and_unavailability_have_different_exit_codes() -> None:
    codes = {errors.InputError.exit_code, errors.UnavailableError.exit_code, 1, 0}
    assert codes == {0, 1, 2, 3}
