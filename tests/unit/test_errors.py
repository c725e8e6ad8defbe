"""The error tree: drawn as it is, documented, and with the exit codes that are promised."""

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
    """Class -> (its parent, its exit code), as the docstring of `errors` draws them."""
    row = re.compile(r"^    (?P<lead>[│├└─ ]*)(?P<name>\w+)(?:.* exit (?P<exit>\d))?")
    found: dict[str, tuple[str | None, int]] = {}
    line_of_descent: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := row.match(line):
            del line_of_descent[len(match["lead"]) // 4 :]
            parent = line_of_descent[-1] if line_of_descent else None
            inherited = found[parent][1] if parent else 1
            assert match["name"] not in found, "drawn twice"
            found[match["name"]] = (parent, int(match["exit"] or inherited))
            line_of_descent.append(match["name"])
    return found


def defined() -> dict[str, tuple[str, str]]:
    """Class -> (its module, its first base), for every error that leaves the package."""
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


def test_the_tree_draws_every_error_of_the_package_under_its_parent_and_no_other() -> None:
    parents = {name: None if base == "Exception" else base for name, (_, base) in DEFINED.items()}
    assert {name: parent for name, (parent, _) in drawn().items()} == parents


def test_the_tree_says_where_an_error_lives_that_is_not_in_the_module() -> None:
    lines = (errors.__doc__ or "").splitlines()
    for name, (module, _) in DEFINED.items():
        if module != errors.__name__:
            line = next(line for line in lines if f" {name} " in line)
            assert f"`{module.removeprefix('headwater.')}`" in line


@every_error
def test_the_exit_code_is_the_one_in_the_tree(name: str) -> None:
    assert error_class(name).exit_code == drawn()[name][1]


@every_error
def test_the_name_ends_in_error(name: str) -> None:
    assert name.endswith("Error")


@every_error
def test_it_has_a_docstring_of_its_own(name: str) -> None:
    assert (error_class(name).__dict__["__doc__"] or "").strip().endswith(".")


@every_error
def test_text_hint_and_facts_survive_a_pickle(name: str) -> None:
    # Spark's Python workers and process pools send errors this way.
    error = error_class(name)("what happened: 7", hint="change it", value=7, names=("a", "b"))
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made one line above
    assert type(copy) is type(error)
    assert (str(copy), copy.message) == ("what happened: 7", "what happened: 7")
    assert (copy.hint, copy.facts) == ("change it", {"value": 7, "names": ("a", "b")})


def test_an_error_without_hint_and_facts_has_none() -> None:
    error = HeadwaterError("what happened")
    assert (error.hint, error.facts, error.exit_code) == (None, {}, 1)


def test_fixing_the_input_and_trying_later_have_exit_codes_of_their_own() -> None:
    codes = {errors.InputError.exit_code, errors.UnavailableError.exit_code, 1, 0}
    assert codes == {0, 1, 2, 3}
