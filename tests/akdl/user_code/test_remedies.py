"""What is added to errors that scripts often raise."""

from __future__ import annotations

import pathlib

import pytest

from akdl.user_code.remedies import missing_column, missing_export

COLUMNS = ["id", "name", "score"]


class InvalidArgumentError(Exception):
    """As TensorFlow's."""


@pytest.mark.parametrize(
    ("error", "added"),
    [
        (KeyError("scor"), " (did you mean 'score'? the rows have 'id', 'name', 'score')"),
        (KeyError("Score"), " (did you mean 'score'? the rows have 'id', 'name', 'score')"),
        (KeyError("learning_rate"), ""),
        (KeyError("score"), ""),
        (KeyError(3), ""),
        (ValueError("scor"), ""),
        (
            InvalidArgumentError("Key: <unknown>.  Feature: scor (data type: float) is required but could not be found."),
            " (the rows have 'id', 'name', 'score')",
        ),
        (InvalidArgumentError("Feature: score (data type: float) is required but could not be found."), ""),
    ],
)
def test_a_missing_column_lists_the_columns(error: Exception, added: str) -> None:
    assert missing_column(error, COLUMNS) == added


def test_of_many_columns_some_are_listed() -> None:
    added = missing_column(KeyError("feature_3x"), [f"feature_{number}" for number in range(500)])
    assert "and 480 more)" in added and len(added) < 400


def test_a_missing_export_says_where_it_belongs(tmp_path: pathlib.Path) -> None:
    expected = (
        "the script has left no SavedModel in task_config.saved_model_dir: export the trained model there, as with "
        "tf.saved_model.save(model, task_config.saved_model_dir)"
    )
    folder = tmp_path / "savedmodel"
    assert missing_export(str(folder), str(tmp_path)) == expected
    folder.mkdir()
    (tmp_path / "export" / "1").mkdir(parents=True)
    (tmp_path / "export" / "1" / "saved_model.pb").write_text("")
    assert missing_export(str(folder), str(tmp_path)) == f"{expected}; there is one in export/1, which nobody gets"
    (folder / "anything").write_text("")
    assert missing_export(str(folder), str(tmp_path)) == ""
