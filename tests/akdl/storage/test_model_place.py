"""Places of models: folders, archives, tables and addresses; and models that are stored while their
table names them.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import shutil
import tarfile
import zipfile
from typing import Any

import pytest

from akdl.storage.files import FileError
from akdl.storage.model_archive import pack, unpack, unpack_file, write_zip
from akdl.storage.model_forms import ModelError
from akdl.storage.model_place import ModelFolder, check_model, get_model, named_model, put_model
from bridge.schema import Schema
from operators.alink.ak_file import AkWriter
from tests.akdl.storage.test_model_archive import files_of, make_model
from tests.support.http import served


@pytest.fixture
def model(tmp_path: pathlib.Path) -> pathlib.Path:
    return make_model(tmp_path / "export", big=3 << 20)


def named(text: str) -> str:
    name = named_model(text)
    assert name is not None
    return name


def test_a_model_is_found_again_by_its_name_and_is_the_same(
    model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    text = put_model(str(model), str(tmp_path / "models"))
    path = get_model(named(text), str(tmp_path / "models"), str(tmp_path))
    assert os.listdir(tmp_path / "models") == [named(text)], "nothing unfinished is left"
    found = unpack_file(path, str(tmp_path / "again"))
    assert files_of(pathlib.Path(found)) == files_of(model)
    assert put_model(str(model), str(tmp_path / "models")) == text and len(text) < 300


def test_a_model_at_an_address_comes_with_its_checkpoint(
    model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    fsspec = pytest.importorskip("fsspec")
    address = "memory://models/of/test"
    text = put_model(str(model), address, checkpoint=str(model / "variables"))
    path = get_model(named(text), address + "/", str(tmp_path))
    assert files_of(pathlib.Path(unpack_file(path, str(tmp_path / "again")))) == files_of(model)
    assert json.loads(text)["akdl_checkpoint"]["size"] > 3 << 20
    assert len(fsspec.filesystem("memory").ls("/models/of/test")) == 2


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "/etc/passwd",
        "akdl-model-.zip",
        "s3://other/model.zip",
        f"x/akdl-model-{'0' * 64}.zip",
        7,
    ],
)
def test_a_table_can_name_no_other_file(name: object) -> None:
    with pytest.raises(ModelError, match="is not the name of a model in modelDir"):
        named_model(json.dumps({"akdl_model": {"name": name}}))


@pytest.mark.parametrize(
    "text", ["model.zip", '[{"name": "model.zip", "size": 1}]', "{", '{"other": 1}', None]
)
def test_a_table_that_holds_a_model_names_none(text: str | None) -> None:
    assert named_model(text) is None


@pytest.mark.fault("jobs")
def test_a_damaged_missing_or_linked_model_is_refused(
    model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "models"
    name = named(put_model(str(model), str(folder)))
    with pytest.raises(ModelError, match="of the table in modelDir .*: there is no file"):
        get_model(name, str(tmp_path), str(tmp_path))
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="is a link"):
        get_model(name, str(folder), str(tmp_path))
    (folder / name).unlink()
    (folder / name).write_bytes(b"another")
    with pytest.raises(ModelError, match="expected the SHA-256"):
        get_model(name, str(folder), str(tmp_path))


def test_model_dir_that_cannot_be_written_is_an_error(
    model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        FileError,
        match="modelDir .*file/models: the model cannot be written there: Not a directory",
    ):
        put_model(str(model), str(tmp_path / "file" / "models"))


def test_placed_model_without_a_model_dir_is_refused_with_the_remedy(
    model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    text = put_model(str(model), str(tmp_path / "models"))
    with pytest.raises(ModelError, match="in the modelDir of the operator that trained it"):
        unpack([(0, text)], str(tmp_path / "again"))


FILES = {"saved_model.pb": b"graph", "variables/variables.index": b"index"}


@pytest.fixture
def saved(tmp_path: pathlib.Path) -> pathlib.Path:
    for name, content in FILES.items():
        path = tmp_path / "saved" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "saved"


def contents(folder: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in pathlib.Path(folder).rglob("*")
        if path.is_file()
    }


def test_a_folder_is_used_and_kept(saved: pathlib.Path) -> None:
    folder = ModelFolder(str(saved))
    assert folder.path == str(saved)
    folder.remove()
    assert contents(str(saved)) == FILES


def archive(saved: pathlib.Path) -> Any:
    with io.BytesIO() as file:
        write_zip(str(saved), file)
        content = file.getvalue()
    path = saved.parent / "model.zip"
    path.write_bytes(content)
    return str(path)


def model_table(saved: pathlib.Path) -> Any:
    with open(saved.parent / "model.ak", "wb") as file:
        writer = AkWriter(file, Schema.parse("model_id BIGINT, model_info STRING"))
        for row in pack(str(saved)):
            writer.write(row)
        writer.close()
    return file.name


def folder_of_tables(saved: pathlib.Path) -> Any:
    (saved.parent / "tables").mkdir()
    os.rename(model_table(saved), saved.parent / "tables" / "1")
    (saved.parent / "tables" / "_SUCCESS").touch()
    return str(saved.parent / "tables")


def model_dir(saved: pathlib.Path) -> Any:
    put_model(str(saved), str(saved.parent / "models"))
    return str(saved.parent / "models")


def test_model_dir_of_several_trainings_is_refused(saved: pathlib.Path) -> None:
    place = model_dir(saved)
    (saved / "more").touch()
    put_model(str(saved), place)
    for call in (ModelFolder, check_model):
        with pytest.raises(
            ModelError, match="has the models of 2 trainings: name one of its zip files"
        ):
            call(place)


@pytest.mark.parametrize("make", [archive, model_table, folder_of_tables, model_dir, str])
def test_models_of_all_forms_are_accepted(saved: pathlib.Path, make: Any) -> None:
    check_model(make(saved))


def test_archive_without_a_model_is_refused_by_its_names(tmp_path: pathlib.Path) -> None:
    for name, message in [
        ("a/b/saved_model.pb", "found a/b/saved_model.pb$"),
        ("model.weights.h5", "m.zip is a model in a format"),
    ]:
        with zipfile.ZipFile(tmp_path / "m.zip", "w") as file:
            file.writestr(name, b"")
        for call in (check_model, ModelFolder):
            with pytest.raises(
                ModelError,
                match=f"m.zip: expected the folder of a SavedModel or of MLflow, .*{message}",
            ):
                call(str(tmp_path / "m.zip"))


@pytest.mark.parametrize("make", [archive, model_table, folder_of_tables, model_dir])
def test_models_in_archives_and_tables_are_unpacked_and_removed(
    saved: pathlib.Path, make: Any
) -> None:
    folder = ModelFolder(make(saved))
    assert contents(folder.path) == FILES and folder.path != str(saved)
    for _ in range(2):
        folder.remove()
    assert not os.path.exists(os.path.dirname(folder.path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.zip", "the model cannot be read: .*missing.zip"),
        (
            "text",
            "expected the folder of a SavedModel or of MLflow, a .keras, .onnx, .pt2, .pt file, a zip or tar file of one, or a model table in an .ak file$",
        ),
    ],
)
def test_path_without_a_model_is_refused_and_leaves_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    (tmp_path / "text").write_text("no archive")
    (tmp_path / "places").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "places"))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(ModelError, match=message):
        ModelFolder(str(tmp_path / name))
    assert os.listdir(tmp_path / "places") == []


@pytest.mark.parametrize("suffix", ["zip", "gztar", "tar"])
@pytest.mark.parametrize("inside", ["", "model/"])
def test_archives_of_each_kind_are_unpacked(
    saved: pathlib.Path, tmp_path: pathlib.Path, suffix: str, inside: str
) -> None:
    shutil.copytree(saved, tmp_path / "packed" / inside)
    folder = ModelFolder(shutil.make_archive(str(tmp_path / "m"), suffix, tmp_path / "packed"))
    assert contents(os.path.join(folder.path, "")) == FILES
    folder.remove()


def test_tar_file_of_a_keras_file_is_no_zip_file(tmp_path: pathlib.Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.keras", "w") as model:
        model.writestr("config.json", "{}")
    with tarfile.open(tmp_path / "m.tar", "w") as archive:
        archive.add(tmp_path / "m.keras", "m.keras")
    folder = ModelFolder(str(tmp_path / "m.tar"))
    assert pathlib.Path(folder.path).read_bytes() == (tmp_path / "m.keras").read_bytes()
    folder.remove()


def test_models_at_addresses_are_fetched(saved: pathlib.Path, tmp_path: pathlib.Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    file = pathlib.Path(shutil.make_archive(str(tmp_path / "m"), "gztar", saved))
    system = fsspec.filesystem("memory")
    system.put(str(saved), "/akdl_served", recursive=True)
    with served(files={"/model": file.read_bytes()}) as site:
        for address in (
            f"{site.url}/model",
            file.as_uri(),
            "memory://akdl_served",
            f"file://{saved}",
        ):
            folder = ModelFolder(address)
            assert contents(folder.path) == FILES
            folder.remove()
        with pytest.raises(ModelError, match="the model cannot be read: .*/nope: HTTP 404"):
            ModelFolder(f"{site.url}/nope")
    system.rm("/akdl_served", recursive=True)


def test_files_without_an_archive_of_a_model_are_refused(
    saved: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "m.zip").write_text("text")
    with pytest.raises(
        ModelError,
        match="expected the folder of a SavedModel or of MLflow, .*, a zip or tar file of one",
    ):
        ModelFolder(str(tmp_path / "m.zip"))
    with tarfile.open(tmp_path / "out.tar", "w") as archive:
        archive.add(saved / "saved_model.pb", "../saved_model.pb")
    with pytest.raises(ModelError, match="would leave its folder"):
        ModelFolder(str(tmp_path / "out.tar"))
