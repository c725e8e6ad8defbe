"""Options of `headwater run` for a user's own file."""

from __future__ import annotations

import pytest

from headwater.cli.run import take_file_options, take_restarts
from headwater.errors import InputError
from headwater.settings import command_line, load


def test_options_are_taken_out_of_the_arguments_up_to_the_separator() -> None:
    words = ["in", "--set", "a.b=1", "--delivery=batched", "--own", "--set=c=2", "--", "--set", "x"]
    options, rest = take_file_options(words)
    assert options == {"--set": ["a.b=1", "c=2"], "--delivery": ["batched"]}
    assert rest == ["in", "--own", "--set", "x"]


@pytest.mark.parametrize("words", [["--checkpoint"], ["--checkpoint="], ["in", "--set"]])
def test_an_option_without_a_value_is_an_error(words: list[str]) -> None:
    with pytest.raises(InputError, match="expects a value"):
        take_file_options(words)


def test_the_number_of_restarts_is_taken_out() -> None:
    assert take_restarts(["a", "--restarts", "3", "b"]) == (3, ["a", "b"])
    assert take_restarts(["--restarts=2"]) == (2, [])
    assert take_restarts(["a", "--", "--restarts", "3"]) == (0, ["a", "--", "--restarts", "3"])


@pytest.mark.parametrize("word", ["--restarts", "--restarts=x", "--restarts=-1"])
def test_a_number_of_restarts_that_is_not_a_number_is_an_error(word: str) -> None:
    with pytest.raises(InputError, match="--restarts expects a number"):
        take_restarts([word])


def test_settings_of_the_command_line_apply_to_those_that_the_file_loads() -> None:
    chosen = command_line.CommandLine({"jobs": {"version": "v9"}, "kafka": {"port": "1"}})
    with command_line.use(chosen):
        assert load().jobs.version == "v9"
        # Arguments of `load` take precedence, key by key.
        loaded = load(kafka={"timeout_seconds": 7})
        assert (loaded.kafka.port, loaded.kafka.timeout_seconds) == (1, 7)
    assert load().jobs.version != "v9"


def test_a_checkpoint_of_the_command_line_is_for_one_job() -> None:
    chosen = command_line.CommandLine(checkpoint="cp")
    assert [chosen.checkpoint_for("a"), chosen.checkpoint_for("a")] == ["cp", "cp"]
    with pytest.raises(InputError, match="this file has two: 'a' and 'b'"):
        chosen.checkpoint_for("b")
    assert command_line.CommandLine().checkpoint_for("b") is None
