"""Exceptions as data."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from akdl import testing
from akdl.user_code.failure import MESSAGE_CHARACTERS, failure_of
from akdl.user_code.module import import_file

ROOT = pathlib.Path(__file__).parents[3]


class Mute(Exception):
    def __str__(self) -> None:
        raise KeyError("no text")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("grün"), "grün"),
        (ValueError("\ud800"), "\\ud800"),
        (Mute(), "(its text cannot be shown: __str__ raised KeyError)"),
    ],
)
def test_failure_carries_any_text_of_an_error(error: ValueError | Mute, message: str) -> None:
    failure = failure_of(error)
    assert (failure.type, failure.message) == (type(error).__name__, message)
    assert failure.SerializeToString()


def test_failure_keeps_the_beginning_and_the_end_of_a_long_text() -> None:
    failure = failure_of(ValueError("begin" + "x" * 1_000_000 + "end"))
    assert failure.message.startswith("begin") and failure.message.endswith("end")
    assert len(failure.message) < MESSAGE_CHARACTERS + 100
    assert "characters left out" in failure.message and "characters left out" in failure.traceback


@pytest.mark.parametrize("asked_for", [False, True])
def test_the_traceback_ends_in_the_script_unless_all_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, asked_for: bool
) -> None:
    monkeypatch.setenv("AKDL_TRACEBACK", "full" if asked_for else "")
    with pytest.raises(TypeError) as caught:
        testing.CollectingWriter({"n": "INT"}).write("no Example")
    told = failure_of(caught.value).traceback
    assert '.write("no Example")' in told and "TypeError: " in told
    assert ("output_writer.py" in told) is asked_for


def test_a_traceback_of_akdl_alone_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AKDL_TRACEBACK", raising=False)
    with pytest.raises(TypeError) as caught:
        testing.CollectingWriter({"n": "INT"}).write("no Example")
    own = caught.value.with_traceback(caught.value.__traceback__.tb_next)
    assert "output_writer.py" in failure_of(own).traceback


def test_the_traceback_begins_in_the_script_unless_all_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    script = tmp_path / "broken.py"
    script.write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError) as caught:
        import_file(str(script), str(tmp_path))
    error = caught.value.with_traceback(caught.value.__traceback__.tb_next)
    for asked_for, is_there in [("full", True), ("", False)]:
        monkeypatch.setenv("AKDL_TRACEBACK", asked_for)
        told = failure_of(error).traceback
        assert "broken.py" in told and ("user_code" in told, "importlib" in told) == (
            is_there,
            is_there,
        )


def test_the_node_of_a_graph_is_left_out() -> None:
    failure = failure_of(
        ValueError(
            "{{function_node __wrapped__IteratorGetNext_device_/job:localhost/task:0}} ValueError: row 0"
        )
    )
    assert (
        failure.message == "ValueError: row 0"
        and failure.traceback == "ValueError: ValueError: row 0\n"
    )


@pytest.mark.tf
@pytest.mark.process
def test_keras_2_without_its_package_is_explained() -> None:
    text = (
        "import sys\nsys.modules['tf_keras'] = None\nimport tensorflow as tf\nfrom akdl.user_code.failure import failure_of\n"
        "try:\n    tf.keras.Input([1])\nexcept ImportError as error:\n    print(failure_of(error).message)"
    )
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, cwd=ROOT
    )
    assert "TF_USE_LEGACY_KERAS asks for Keras 2, which is the package tf-keras" in done.stdout, (
        done.stderr
    )
    assert sys.executable in done.stdout


def test_other_import_errors_are_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    error = ImportError("Keras cannot be imported. Check that it is installed.")
    monkeypatch.delenv("TF_USE_LEGACY_KERAS", raising=False)
    assert failure_of(error).message == str(error)
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "True")
    assert failure_of(error).message.startswith(f"{error} TF_USE_LEGACY_KERAS asks for")
    assert failure_of(ImportError("no module")).message == "no module"
