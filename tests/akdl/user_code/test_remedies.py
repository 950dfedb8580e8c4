"""What is added to errors that scripts often raise."""

from __future__ import annotations

import importlib
import pathlib
import sys
import types

import pytest

from akdl import testing
from akdl.user_code.failure import failure_of
from akdl.user_code.remedies import missing_column, missing_export, missing_file, no_group

COLUMNS = ["id", "name", "score"]


class InvalidArgumentError(Exception):
    """As TensorFlow's."""


@pytest.mark.parametrize(
    ("error", "added"),
    [
        (KeyError("scor"), " (did you mean 'score'? the rows have 'id', 'name', 'score')"),
        (KeyError("Score"), " (did you mean 'score'? the rows have 'id', 'name', 'score')"),
        (
            KeyError("KeyError: 'scor'"),
            " (did you mean 'score'? the rows have 'id', 'name', 'score')",
        ),
        (KeyError("learning_rate"), ""),
        (KeyError("score"), ""),
        (KeyError(3), ""),
        (ValueError("scor"), ""),
        (
            InvalidArgumentError(
                "Key: <unknown>.  Feature: scor (data type: float) is required but could not be found."
            ),
            " (the rows have 'id', 'name', 'score')",
        ),
        (
            InvalidArgumentError(
                "Feature: score (data type: float) is required but could not be found."
            ),
            "",
        ),
    ],
)
def test_a_missing_column_lists_the_columns(error: Exception, added: str) -> None:
    assert missing_column(error, COLUMNS) == added


@pytest.mark.parametrize(
    ("error", "is_advised"),
    [
        (FileNotFoundError(2, "No such file or directory", "weights.npy"), True),
        (FileNotFoundError("weights.npy not found."), True),
        (OSError("No file or directory found at model.h5"), True),
        (
            OSError("SavedModel file does not exist at: model/{saved_model.pbtxt|saved_model.pb}"),
            True,
        ),
        (
            ValueError(
                "File not found: filepath=model.keras. Please ensure the file is an accessible `.keras` zip file."
            ),
            True,
        ),
        (RuntimeError("NewRandomAccessFile failed: rows.csv; No such file or directory"), True),
        (FileNotFoundError(2, "No such file or directory", "/data/weights.npy"), False),
        (
            OSError(
                "SavedModel file does not exist at: /models/1/{saved_model.pbtxt|saved_model.pb}"
            ),
            False,
        ),
        (ValueError("File not found: filepath=/models/m.keras."), False),
        (FileNotFoundError("s3://bucket/weights.npy"), False),
        (KeyError("weights.npy"), False),
    ],
)
def test_a_missing_file_of_the_script_belongs_to_its_user_files(
    error: Exception, is_advised: bool
) -> None:
    assert ("has its userFiles only: add the file to them" in missing_file(error)) == is_advised
    assert ("userFiles" in failure_of(error).message) == is_advised


def test_missing_column_lists_only_some_of_many_columns() -> None:
    added = missing_column(KeyError("feature_3x"), [f"feature_{number}" for number in range(500)])
    assert "and 480 more)" in added and len(added) < 400


def test_a_missing_export_says_where_it_belongs(tmp_path: pathlib.Path) -> None:
    expected = (
        "the script left no model in task_config.saved_model_dir: export it with "
        "model.export(task_config.saved_model_dir), or save the files of another framework there"
    )
    folder = tmp_path / "savedmodel"
    assert missing_export(str(folder), str(tmp_path)) == expected
    folder.mkdir()
    (tmp_path / "export" / "1").mkdir(parents=True)
    (tmp_path / "export" / "1" / "saved_model.pb").write_text("")
    assert (
        missing_export(str(folder), str(tmp_path)) == f"{expected}; the one in export/1 is ignored"
    )
    (folder / "anything").write_text("")
    assert missing_export(str(folder), str(tmp_path)) == ""


@pytest.mark.parametrize(
    ("version", "text", "is_told"),
    [
        (
            "3.15.1",
            "Attempt to convert a value ({'x': PerReplica:{\n  0: 1}}) with an unsupported type (<class 'dict'>)",
            True,
        ),
        (
            "3.15.1",
            "To use this dataset, you need to pass this dataset to ClusterCoordinator.create_per_worker_dataset.",
            True,
        ),
        ("3.15.1", "Attempt to convert a value (None) with an unsupported type", False),
        ("2.15.0", "Attempt to convert a value (PerReplica) with an unsupported type", False),
        (None, "Attempt to convert a value (PerReplica) with an unsupported type", False),
    ],
)
def test_unsupported_group_of_keras_3_is_told_to_use_legacy_keras(
    version: str | None, text: str, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    keras = None if version is None else types.SimpleNamespace(__version__=version)
    monkeypatch.setitem(sys.modules, "keras", keras)
    told = no_group(ValueError(text))
    assert (
        ("TF_USE_LEGACY_KERAS=1" in told and told.endswith("Keras reports: "))
        if is_told
        else told == ""
    )


def test_missing_tensorflow_is_an_error_that_names_the_function(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    config = testing.batch_task_config({"x": [1.0]}, {"x": "FLOAT"}, str(tmp_path))
    for call, name in (
        (lambda: config.context.batches(1), "batches"),
        (lambda: importlib.import_module("tensorflow"), "this"),
    ):
        with pytest.raises(ModuleNotFoundError) as raised:
            call()
        assert (
            f" ({name} needs TensorFlow: install it with {sys.executable} -m pip"
            in failure_of(raised.value).message
        )
