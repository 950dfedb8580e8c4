"""Common parts of the commands."""

from __future__ import annotations

import io

import pytest

from akdl.runner_commands import FAILED, INTERRUPTED, WRONG, say, settings
from akdl.user_code.config_file import ConfigError


def test_lines_are_written_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    below = io.BytesIO()
    with io.TextIOWrapper(io.BufferedWriter(below), encoding="utf-8") as stream:  # type: ignore[arg-type]
        say("one", file=stream)
        assert below.getvalue() == b"one\n"
    say("two")
    assert capsys.readouterr().out == "two\n"


def test_exit_codes_are_the_documented_ones() -> None:
    """Documented in the modules of the commands."""
    assert (FAILED, WRONG, INTERRUPTED) == (1, 2, 130)


def test_settings_are_split_at_the_first_equals_sign() -> None:
    assert list(settings(["epochs=3", "place=a=b"])) == [("epochs", "3"), ("place", "a=b")]
    with pytest.raises(ConfigError, match="--set epochs: expected key=value"):
        list(settings(["epochs"]))
