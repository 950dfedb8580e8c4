"""The start of a TensorFlow process: which function of a script is run, and how it fails."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from akdl import entry
from akdl.user_code.failure import failure_of
from akdl.wire import TableColumn, Task

pytestmark = pytest.mark.estimator

FOUR = (
    "def model_fn(features, labels, mode, params): pass\ndef train_input_fn(path, params): pass\n"
)


@pytest.fixture
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", ["/somewhere"])


def runner_of(folder: Path, text: str, runner: Any = None) -> Any:
    (folder / "script.py").write_text(text)
    return entry.find_main(str(folder / "script.py"), str(folder), runner)


@pytest.mark.tf
@pytest.mark.usefixtures("_own_path")
def test_runner_of_a_script_follows_from_its_functions(tmp_path: Path) -> None:
    from akdl.estimator import functions_script
    from akdl.keras import operator as keras

    assert runner_of(tmp_path, FOUR).func is functions_script.main
    assert runner_of(tmp_path, "def awf_create_model_fn(): pass\n").func is keras.main
    assert runner_of(tmp_path, "def main(config): pass\n" + FOUR).__name__ == "main"
    assert (
        runner_of(tmp_path, "def main(config): pass\n" + FOUR, "estimator").func
        is functions_script.main
    )


@pytest.mark.tf
@pytest.mark.usefixtures("_own_path")
def test_script_of_several_kinds_needs_a_chosen_runner(tmp_path: Path) -> None:
    from akdl.estimator import functions_script

    text = FOUR + "def awf_create_model_fn(): pass\n"
    with pytest.raises(
        entry.ScriptError,
        match="user parameter 'runner': script.py holds functions of several kinds",
    ):
        runner_of(tmp_path, text)
    assert runner_of(tmp_path, text, "estimator").func is functions_script.main


@pytest.mark.usefixtures("_own_path")
def test_script_without_known_functions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        entry.ScriptError,
        match="script.py defines no function `main`.* or the four functions of an Estimator",
    ):
        runner_of(tmp_path, "def train(): pass\n")


@pytest.mark.fault("data", "A main with yield or async, of which no line runs, is an error")
@pytest.mark.parametrize(
    "text", ["def main(c): yield", "async def main(c): pass", "async def main(c): yield"]
)
def test_a_main_of_which_no_line_would_run_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(
        entry.ScriptError, match="expected a plain function, got one with yield or async"
    ):
        runner_of(tmp_path, text)


def test_main_script_is_python(tmp_path: Path) -> None:
    (tmp_path / "script.txt").touch()
    with pytest.raises(entry.ScriptError, match="script.txt.*: mainScriptFile must end in .py"):
        entry.find_main(str(tmp_path / "script.txt"), str(tmp_path), None)


@pytest.mark.usefixtures("_own_path")
@pytest.mark.parametrize(
    ("text", "after"), [("", "as before"), ("import gc\ngc.set_threshold(5, 6, 7)\n", (5, 6, 7))]
)
def test_the_garbage_collector_is_slow_while_a_script_is_imported(
    tmp_path: Path, text: str, after: Any
) -> None:
    usual = gc.get_threshold()
    try:
        main = runner_of(
            tmp_path, f"import gc\nSEEN = gc.get_threshold()\n{text}def main(config): return SEEN\n"
        )
        assert main(None) == entry._LOADING != usual
        assert gc.get_threshold() == (usual if after == "as before" else after)
    finally:
        gc.set_threshold(*usual)


@pytest.mark.usefixtures("_own_path")
def test_the_traceback_of_a_script_begins_in_the_script(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        runner_of(tmp_path, "def broken():\n    1 / 0\n\nbroken()\n")
    # without this test's frames
    failure = failure_of(caught.value.with_traceback(caught.tb.tb_next.tb_next))
    assert (failure.type, failure.message) == ("ZeroDivisionError", "division by zero")
    files = [
        line.strip() for line in failure.traceback.splitlines() if line.strip().startswith("File ")
    ]
    assert [line.split('"')[1] for line in files] == [str(tmp_path / "script.py")] * 2


def test_a_checkpoint_dir_is_made_or_refused(tmp_path: Path) -> None:
    entry._make_checkpoint_dir(str(tmp_path / "new" / "inner"))
    assert (tmp_path / "new" / "inner").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(
        entry.ScriptError, match="checkpointDir .*: the folder cannot be created on this host: "
    ):
        entry._make_checkpoint_dir(str(tmp_path / "file" / "inner"))
    for address in ("", "s3://bucket/dir"):
        entry._make_checkpoint_dir(address)


def test_the_hint_about_a_column_is_on_the_line_of_the_error() -> None:
    class MultilineMessageKeyError(KeyError):
        """As AutoGraph's, of which a summary shows the last line."""

        def __str__(self) -> str:
            return f"in user code:\n\n    {self.args[0]}\n"

    task = Task(input_columns=[TableColumn(name="score", type="FLOAT")])
    message = entry.described(MultilineMessageKeyError("KeyError: 'scor'"), task).message
    assert (
        message.splitlines()[-1]
        == "    KeyError: 'scor' (did you mean 'score'? the rows have 'score')"
    )
