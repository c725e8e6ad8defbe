"""The function that returns tokens for OAUTHBEARER."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.errors import SettingError
from headwater.settings.tokens import LoginToken, load_provider

SECRET = "geheim-4711"
MODULE = f"""
def two():
    return "{SECRET}", 5

def four():
    return "{SECRET}", 5.5, "ann", {{"tenant": "a"}}

def text():
    return "{SECRET}"

def failing():
    raise RuntimeError("no network\\nsecond line")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_tokens.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_token_has_an_expiry_and_may_have_a_principal_and_extensions(folder: Path) -> None:
    assert load_provider("my_tokens:two")() == LoginToken(SECRET, 5)
    assert load_provider("my_tokens:four")() == LoginToken(SECRET, 5.5, "ann", {"tenant": "a"})


def test_a_token_is_not_in_the_repr_and_not_in_an_error(folder: Path) -> None:
    assert SECRET not in repr(load_provider("my_tokens:two")())
    with pytest.raises(SettingError, match="returned a str") as caught:
        load_provider("my_tokens:text")()
    assert SECRET not in caught.value.message


@pytest.mark.parametrize("name", ["no_such_module:token", "my_tokens:no_such_function"])
def test_a_function_that_can_not_be_imported_names_the_setting(name: str, folder: Path) -> None:
    with pytest.raises(SettingError) as caught:
        load_provider(name)
    assert "HEADWATER_KAFKA__TOKEN_PROVIDER" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("function", "code", "printed"),
    [
        (
            "four",
            0,
            {
                "token": SECRET,
                "expiresAt": 5500,
                "principal": "ann",
                "extensions": {"tenant": "a"},
            },
        ),
        ("failing", 1, {"error": "RuntimeError: no network"}),
    ],
)
def test_as_a_program_it_prints_one_json_object(
    function: str, code: int, printed: dict[str, object], folder: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headwater.settings.tokens", f"my_tokens:{function}"],
        capture_output=True,
        timeout=60,
        check=False,
        cwd=folder,
    )
    assert (done.returncode, json.loads(done.stdout)) == (code, printed)
