"""What is shown and kept, whatever the console and the disk are like."""

from __future__ import annotations

import io
import pathlib

import pytest

from bridge.host.console import LogFile, say, warn


def test_ascii_console_shows_other_characters_as_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    console = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", console)
    say("grün \ud800")
    assert console.buffer.getvalue() == b"gr\\xfcn \\ud800\n"


@pytest.mark.parametrize("name", ["stdout", "stderr"])
@pytest.mark.parametrize("is_none", [False, True])
def test_console_that_is_closed_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str, is_none: bool
) -> None:
    console = io.StringIO()
    console.close()
    monkeypatch.setattr(f"sys.{name}", None if is_none else console)
    say("rows are predicted")
    warn("slowly")


def test_a_warning_is_on_stderr_and_in_the_log(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    warn("grün")
    assert capsys.readouterr().err == "akdl: grün\n" and caplog.messages == ["grün"]


@pytest.mark.parametrize(("container", "mode"), [({}, 0o600), ({"CONTAINER_ID": "c_1"}, 0o640)])
def test_a_log_file_belongs_to_its_user_and_the_group_of_a_container(
    container: dict[str, str], mode: int, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    for name, value in container.items():
        monkeypatch.setenv(name, value)
    file = LogFile(str(tmp_path / "log"))
    file.write("grün")
    assert (tmp_path / "log").read_text(encoding="utf-8") == "grün\n"
    assert (tmp_path / "log").stat().st_mode & 0o777 == mode
    file.close()
    file.close()
    file.write("nothing")


@pytest.mark.parametrize("most_files", [1, 3])
def test_full_log_files_are_kept_up_to_a_number(most_files: int, tmp_path: pathlib.Path) -> None:
    for number in range(9):
        # The process of each job of an elastic training continues the file.
        if number % 3 == 0:
            file = LogFile(str(tmp_path / "log"), most_bytes=16, most_files=most_files)
        file.write(f"line {number}")
        if number % 3 == 2:
            file.close()
    file = LogFile(str(tmp_path / "log"), most_bytes=16, most_files=most_files)
    file.write("a line longer than a file")
    file.close()
    lines = {path.name: path.read_text().splitlines() for path in tmp_path.iterdir()}
    expected = {
        "log": ["a line longer than a file"],
        "log.1": ["line 8"],
        "log.2": ["line 6", "line 7"],
    }
    assert lines == dict(list(expected.items())[:most_files])


@pytest.mark.parametrize("path", ["/dev/full", "/proc/no/such/folder/log"])
def test_log_file_that_cannot_be_written_is_warned_of_once(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = LogFile(path)
    for _ in range(100):
        file.write("line")
    file.close()
    assert [record.message for record in caplog.records] == [caplog.records[0].message], (
        "it says so once"
    )
    assert path in caplog.text
