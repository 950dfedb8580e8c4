"""Models that lie in a folder while their table names them."""

from __future__ import annotations

import json
import os
import pathlib

import pytest

from akdl.storage.files import FileError
from akdl.storage.model_archive import ModelError, unpack, unpack_file
from akdl.storage.model_place import get_model, named_model, put_model
from tests.akdl.storage.test_model_archive import files_of, make_model


@pytest.fixture
def model(tmp_path: pathlib.Path) -> pathlib.Path:
    return make_model(tmp_path / "export", big=3 << 20)


def named(text: str) -> str:
    name = named_model(text)
    assert name is not None
    return name


def test_a_model_is_found_again_by_its_name_and_is_the_same(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    text = put_model(str(model), str(tmp_path / "models"), {"a": 1})
    path = get_model(named(text), str(tmp_path / "models"), str(tmp_path))
    assert os.listdir(tmp_path / "models") == [named(text)], "nothing unfinished is left"
    found = unpack_file(path, str(tmp_path / "again"))
    assert files_of(pathlib.Path(found)) == files_of(model)
    assert put_model(str(model), str(tmp_path / "models"), {"a": 1}) == text and len(text) < 300


def test_a_model_at_an_address_comes_with_its_checkpoint(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    address = "memory://models/of/test"
    text = put_model(str(model), address, {}, checkpoint=str(model / "variables"))
    path = get_model(named(text), address + "/", str(tmp_path))
    assert files_of(pathlib.Path(unpack_file(path, str(tmp_path / "again")))) == files_of(model)
    assert json.loads(text)["akdl_checkpoint"]["size"] > 3 << 20
    assert len(fsspec.filesystem("memory").ls("/models/of/test")) == 2


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "akdl-model-.zip", "s3://other/model.zip", f"x/akdl-model-{'0' * 64}.zip", 7]
)
def test_a_table_can_name_no_other_file(name: object) -> None:
    with pytest.raises(ModelError, match="is not the name of a model in modelDir"):
        named_model(json.dumps({"akdl_model": {"name": name}}))


@pytest.mark.parametrize("text", ["model.zip", '[{"name": "model.zip", "size": 1}]', "{", '{"other": 1}', None])
def test_a_table_that_holds_a_model_names_none(text: str | None) -> None:
    assert named_model(text) is None


@pytest.mark.fault("jobs")
def test_a_model_that_is_damaged_missing_or_elsewhere_is_refused(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
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


def test_a_folder_that_cannot_be_written_is_told(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="modelDir .*file/models: the model cannot be written there: Not a directory"):
        put_model(str(model), str(tmp_path / "file" / "models"))


def test_a_reader_that_is_told_no_folder_says_what_to_do(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    text = put_model(str(model), str(tmp_path / "models"))
    with pytest.raises(ModelError, match="in the modelDir of the operator that trained it"):
        unpack([(0, text)], str(tmp_path / "again"))
