"""`akdl COMMAND`: each command is found and knows its name; what is missing for it is named."""

from __future__ import annotations

import subprocess
import sys

import pytest

from akdl.__main__ import COMMANDS, main


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_know_their_names(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0 and capsys.readouterr().out.startswith(f"usage: akdl {command} ")


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_lists_all_commands(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["akdl"])
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    lines = capsys.readouterr().out.splitlines()
    assert ended.value.code == 0 and set(COMMANDS) <= {
        line.split()[0] for line in lines if line.strip()
    }


def test_an_unknown_command_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["docter"])
    assert ended.value.code == 2 and "invalid choice: 'docter'" in capsys.readouterr().err


@pytest.mark.process
@pytest.mark.parametrize("command", ["estimator", "keras", "replay"])
def test_commands_of_scripts_run_where_the_flink_side_is_missing(command: str) -> None:
    code = "import sys; sys.modules.update(operators=None, bridge=None, pyflink=None); from akdl.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, command, "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout.startswith(f"usage: akdl {command} "), done.stderr


@pytest.mark.process
def test_a_command_names_the_extras_that_it_needs() -> None:
    code = "import sys; sys.modules['psutil'] = None; from akdl.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "top", "4711"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert (
        "akdl top needs the package psutil: install the extras flink of akdl, as you installed akdl\n"
        == done.stderr
    )
