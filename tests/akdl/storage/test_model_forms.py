"""What lies where a SavedModel was expected."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from akdl.storage.model_forms import other_form

KERAS, WEIGHTS, FUNCTION = (
    "is a model in a format of Keras: save",
    "is the weights of a checkpoint",
    "is a model of another frame",
)


@pytest.mark.parametrize(
    ("files", "path", "expected"),
    [
        (["m.keras"], "m.keras", f": m.keras {KERAS}"),
        (["m.H5"], "m.H5", f": m.H5 {KERAS}"),
        (["m.h5"], "", f": m.h5 {KERAS}"),
        (["m.weights.h5"], "", f": m.weights.h5 {WEIGHTS}"),
        (
            ["checkpoint", "ckpt-1.index", "ckpt-1.data-00000-of-00001"],
            "",
            f": checkpoint {WEIGHTS}",
        ),
        (["ckpt-1.index", "ckpt-1.data-00000-of-00001"], "ckpt-1", f": ckpt-1.index {WEIGHTS}"),
        (["m.onnx"], "m.onnx", ""),
        (["m.joblib", "a.txt"], "", f": m.joblib {FUNCTION}"),
        (["a.txt"], "a.txt", ""),
        ([], "", ""),
        ([], "missing", ""),
    ],
)
def test_other_form_knows_forms_of_models_by_names(
    tmp_path: Path, files: list[str], path: str, expected: str
) -> None:
    for name in files:
        (tmp_path / name).touch()
    found = other_form(str(tmp_path / path))
    assert found.startswith(expected) and bool(found) == bool(expected)


def test_other_form_knows_files_of_keras_by_their_content(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"\x89HDF\r\n\x1a\n and more")
    assert other_form(str(tmp_path / "model")).startswith(f": model {KERAS}")
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as file:
        file.writestr("model.weights.h5", b"")
    assert other_form(str(tmp_path / "model.zip")).startswith(f": model.zip {KERAS}")
    (tmp_path / "broken.zip").write_bytes((tmp_path / "model.zip").read_bytes()[:-5])
    assert other_form(str(tmp_path / "broken.zip")) == ""
