"""What is told of a script that has succeeded."""

from __future__ import annotations

import pathlib
import threading

import pytest

from akdl.user_code.script_warnings import ScriptWarnings


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    (tmp_path / "main.py").write_text("open('model.h5', 'w')")
    (tmp_path / ".akdl" / "lib").mkdir(parents=True)
    (tmp_path / ".akdl" / "lib" / "ours.py").write_text("work_dir")
    return tmp_path


def test_files_in_the_work_folder_are_named(folder: pathlib.Path) -> None:
    watch, unasked = ScriptWarnings(str(folder)), ScriptWarnings(str(folder))
    watch.watch_files(["savedmodel"])
    assert watch.sentences() == []
    for name in ("savedmodel", "__pycache__", "logs", "w1", "w2", "w3", "w4"):
        (folder / name).mkdir()
    (folder / "model.h5").write_text("1")
    (said,) = watch.sentences()
    assert said.startswith(
        "the script wrote logs/, model.h5, w1/, w2/, w3/ and 1 more to a relative path"
    )
    assert unasked.sentences() == []


@pytest.mark.parametrize(
    "script",
    [
        "def main(config): open(config.work_dir + '/x', 'w')",
        "from akdl.models.tf.dnn.dnn_batch import main",
    ],
)
def test_files_of_scripts_that_manage_their_work_dir_are_not_warned_of(
    folder: pathlib.Path, script: str
) -> None:
    (folder / "main.py").write_text(script)
    watch = ScriptWarnings(str(folder))
    watch.watch_files()
    (folder / "x").write_text("1")
    assert watch.sentences() == []


def test_files_are_named_where_a_link_in_the_work_folder_leads_nowhere(
    folder: pathlib.Path,
) -> None:
    (folder / "a.py").symlink_to("nowhere.py")
    watch = ScriptWarnings(str(folder))
    watch.watch_files()
    (folder / "model.h5").write_text("1")
    # No file mentions the work folder, so all are read, whatever the order of the listing.
    (said,) = watch.sentences()
    assert said.startswith("the script wrote model.h5 to a relative path")


def test_errors_of_threads_are_reported(folder: pathlib.Path) -> None:
    heard: list[object] = []
    threading.excepthook = lambda arguments: heard.append(arguments.exc_value)
    watch = ScriptWarnings(str(folder))

    def fails(error: BaseException) -> None:
        raise error

    for error in (KeyError("scor"), SystemExit(3), *[ValueError("x" * 9_000)] * 6):
        thread = threading.Thread(target=fails, args=(error,), name="reader")
        thread.start()
        thread.join()
    said = watch.sentences()
    line = fails.__code__.co_firstlineno + 1
    assert (
        said[0]
        == f"an error in a thread of the script did not reach main: reader: KeyError: 'scor' (test_script_warnings.py, line {line})"
    )
    assert (
        len(said) == 6
        and said[-1] == "2 more threads of the script failed"
        and max(map(len, said)) < 500
    )
    assert len(heard) == 8, "they are shown as before, too"
