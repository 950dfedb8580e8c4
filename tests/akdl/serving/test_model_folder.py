"""The local folder of a model: its own, or one that is unpacked for a while."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from akdl.serving.model_folder import ModelFolder
from akdl.storage.model_archive import ModelError, pack, write_zip

FILES = {"saved_model.pb": b"graph", "variables/variables.index": b"index"}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = tmp_path / "saved" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "saved"


def contents(folder: str) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def test_a_folder_is_used_and_kept(saved: Path) -> None:
    folder = ModelFolder(str(saved))
    assert folder.path == str(saved)
    folder.remove()
    assert contents(str(saved)) == FILES


def archive(saved: Path) -> Any:
    with io.BytesIO() as file:
        write_zip(str(saved), file, None)
        content = file.getvalue()
    path = saved.parent / "model.zip"
    path.write_bytes(content)
    return str(path)


def model_rows(saved: Path) -> Any:
    return list(pack(str(saved)))


@pytest.mark.parametrize("make", [archive, model_rows])
def test_others_are_unpacked_and_removed(saved: Path, make: Any) -> None:
    folder = ModelFolder(make(saved))
    assert contents(folder.path) == FILES and folder.path != str(saved)
    for _ in range(2):
        folder.remove()
    assert not os.path.exists(os.path.dirname(folder.path))


@pytest.mark.parametrize(
    ("name", "message"), [("missing.zip", "the model cannot be read: .*missing.zip"), ("text", "expected a zip or tar file")]
)
def test_what_holds_no_model_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str) -> None:
    (tmp_path / "text").write_text("no archive")
    (tmp_path / "places").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "places"))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(ModelError, match=message):
        ModelFolder(str(tmp_path / name))
    assert os.listdir(tmp_path / "places") == []
