"""The local folder of a model: its own, or one that is unpacked for a while."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from akdl.serving.model_folder import ModelFolder, check_model
from akdl.storage.model_archive import ModelError, pack, write_zip
from akdl.storage.model_place import put_model
from bridge.schema import Schema
from operators.alink.ak_file import AkWriter

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


def model_table(saved: Path) -> Any:
    with open(saved.parent / "model.ak", "wb") as file:
        writer = AkWriter(file, Schema.parse("model_id BIGINT, model_info STRING"))
        for row in pack(str(saved)):
            writer.write(row)
        writer.close()
    return file.name


def folder_of_tables(saved: Path) -> Any:
    (saved.parent / "tables").mkdir()
    os.rename(model_table(saved), saved.parent / "tables" / "1")
    (saved.parent / "tables" / "_SUCCESS").touch()
    return str(saved.parent / "tables")


def model_dir(saved: Path) -> Any:
    put_model(str(saved), str(saved.parent / "models"))
    return str(saved.parent / "models")


def test_model_dir_of_several_trainings_is_refused(saved: Path) -> None:
    place = model_dir(saved)
    (saved / "more").touch()
    put_model(str(saved), place)
    for call in (ModelFolder, check_model):
        with pytest.raises(ModelError, match="has the models of 2 trainings: name one of its zip files"):
            call(place)


@pytest.mark.parametrize("make", [archive, model_table, folder_of_tables, model_dir, str])
def test_models_of_all_forms_are_accepted(saved: Path, make: Any) -> None:
    check_model(make(saved))


def test_archive_without_a_model_is_refused_by_its_names(tmp_path: Path) -> None:
    for name, message in [
        ("a/b/saved_model.pb", "found a/b/saved_model.pb$"),
        ("model.weights.h5", "m.zip is a model in a format"),
    ]:
        with zipfile.ZipFile(tmp_path / "m.zip", "w") as file:
            file.writestr(name, b"")
        for call in (check_model, ModelFolder):
            with pytest.raises(ModelError, match=f"m.zip: expected the folder of a SavedModel, .*{message}"):
                call(str(tmp_path / "m.zip"))


@pytest.mark.parametrize("make", [archive, model_rows, model_table, folder_of_tables, model_dir])
def test_others_are_unpacked_and_removed(saved: Path, make: Any) -> None:
    folder = ModelFolder(make(saved))
    assert contents(folder.path) == FILES and folder.path != str(saved)
    for _ in range(2):
        folder.remove()
    assert not os.path.exists(os.path.dirname(folder.path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.zip", "the model cannot be read: .*missing.zip"),
        ("text", "expected the folder of a SavedModel, a zip or tar file of one, or a model table in an .ak file$"),
    ],
)
def test_what_holds_no_model_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str) -> None:
    (tmp_path / "text").write_text("no archive")
    (tmp_path / "places").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "places"))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(ModelError, match=message):
        ModelFolder(str(tmp_path / name))
    assert os.listdir(tmp_path / "places") == []
