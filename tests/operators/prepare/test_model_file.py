"""Models become files that travel with jobs; models without a graph are enough here."""

from __future__ import annotations

import os
import pathlib
import shutil
import zipfile
from collections.abc import Iterable
from typing import Any

import pytest
from pyflink.table import StreamTableEnvironment

from akdl.storage.files import sha256_of
from akdl.storage.model_archive import pack
from akdl.storage.model_forms import kind_at
from akdl.storage.model_place import ModelFolder, PlacedModel, named_model, put_model
from bridge.exceptions import ConfigurationError
from bridge.host.program_folder import program_folder
from bridge.schema import Schema
from operators import BatchOperator, MemSourceBatchOp
from operators.alink.ak_file import AkWriter
from operators.predict_batch import pack_model_table
from operators.prepare.model_file import (
    content_of,
    model_for_job,
    packed_model,
    packed_rows,
    placed_model,
    refuse_other_models,
)
from tests.support.http import served


@pytest.fixture
def model(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "model"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_text(str(tmp_path))
    (folder / "variables" / "variables.index").write_bytes(b"\0")
    return folder


def graph_in(path: str) -> str:
    with zipfile.ZipFile(path) as file:
        assert {"saved_model.pb", "variables/variables.index"} <= set(file.namelist())
        return file.read("saved_model.pb").decode()


def test_a_folder_is_packed(model: pathlib.Path) -> None:
    path = packed_model("here", str(model))
    assert os.path.dirname(path) == program_folder()
    assert os.path.basename(path).startswith("akdl_model_")
    assert graph_in(path) == str(model.parent)


def test_a_model_one_folder_below_is_found(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    model.rename(tmp_path / "moved")
    (tmp_path / "above").mkdir()
    (tmp_path / "moved").rename(tmp_path / "above" / "1700000000")
    assert graph_in(packed_model("here", str(tmp_path / "above"))) == str(tmp_path)


def test_archive_of_a_model_is_sent_unchanged(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "m"), "gztar", str(model))
    assert os.path.realpath(packed_model("here", archive)) == os.path.realpath(archive)
    with open(archive, "rb") as file:
        content = file.read()
    with served(files={"/m.tar.gz": content}) as site:
        path = packed_model("here", f"{site.url}/m.tar.gz")
    with open(path, "rb") as file:
        assert file.read() == content, "it is still there when the site is gone"


def test_rows_of_a_model_table_are_packed_in_any_order(model: pathlib.Path) -> None:
    path = packed_rows(reversed(list(pack(str(model)))))
    assert os.path.dirname(path) == program_folder()
    assert graph_in(path) == str(model.parent)


def ak_file(
    path: pathlib.Path,
    rows: Iterable[tuple[Any, ...]],
    columns: str = "model_id BIGINT, model_info STRING",
) -> str:
    with open(path, "wb") as file:
        writer = AkWriter(file, Schema.parse(columns))
        for row in rows:
            writer.write(row)
        writer.close()
    return str(path)


def test_model_tables_in_files_and_folders_are_packed(
    model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    rows = list(pack(str(model)))
    assert graph_in(packed_model("here", ak_file(tmp_path / "model.ak", rows))) == str(tmp_path)
    (tmp_path / "parts").mkdir()
    for number, row in enumerate(rows):
        ak_file(tmp_path / "parts" / str(number), [row])
    assert graph_in(packed_model("here", str(tmp_path / "parts"))) == str(tmp_path)
    put_model(str(model), str(tmp_path / "model_dir"))
    assert graph_in(packed_model("here", str(tmp_path / "model_dir"))) == str(tmp_path)


def test_path_of_a_model_is_checked_before_a_job(
    tmp_path: pathlib.Path, model: pathlib.Path
) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(ConfigurationError, match=f"Op: modelPath: there is no {missing}$"):
        model_for_job("Op: modelPath", missing, False)
    assert model_for_job("Op: modelPath", missing, True) == missing, "the hosts may have it"
    assert model_for_job("Op: modelPath", str(model), False) == str(model)
    assert model_for_job("Op: modelPath", str(tmp_path), False, is_any=True) == str(tmp_path)
    (tmp_path / "m.h5").write_bytes(b"")
    for is_elsewhere in (False, True):
        with pytest.raises(
            ConfigurationError,
            match="Op: modelPath: .*: m.h5 is a model in a format of Keras: save it",
        ):
            model_for_job("Op: modelPath", str(tmp_path / "m.h5"), is_elsewhere)
        with pytest.raises(
            ConfigurationError, match="Op: candidatePath: .*: m.h5 is a model in a format of Keras"
        ):
            refuse_other_models("Op: candidatePath", f"file://{tmp_path}/m.h5", is_elsewhere)


@pytest.mark.fault("data", "A model on this host with another checksum than asked for is refused")
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_checksum_of_a_model_on_this_host_is_checked(
    tmp_path: pathlib.Path, model: pathlib.Path, scheme: str
) -> None:
    archive = shutil.make_archive(str(tmp_path / "m"), "zip", str(model))
    address = f"{scheme}{archive}#sha256="
    right, wrong = address + sha256_of(archive), address + "0" * 64
    assert model_for_job("Op: modelPath", right, False) == archive
    assert graph_in(model_for_job("Op: modelPath", right, True)) == str(tmp_path)
    refuse_other_models("Op: candidatePath", right, False)
    for is_elsewhere in (False, True):
        with pytest.raises(ConfigurationError, match="^Op: modelPath: .*expected the SHA-256 0000"):
            model_for_job("Op: modelPath", wrong, is_elsewhere)
        with pytest.raises(ConfigurationError, match="^Op: candidatePath: .*expected the SHA-256"):
            refuse_other_models("Op: candidatePath", wrong, is_elsewhere)


def test_paths_without_a_model_are_refused_and_leave_nothing(tmp_path: pathlib.Path) -> None:
    before = sorted(os.listdir(program_folder()))
    with pytest.raises(ConfigurationError, match="^here: .*found nothing"):
        packed_model("here", str(tmp_path))
    with pytest.raises(ConfigurationError, match="^here: .*/nowhere"):
        packed_model("here", "/nowhere")
    assert sorted(os.listdir(program_folder())) == before


@pytest.mark.flink
def test_a_model_table_is_packed_once(
    table_env: StreamTableEnvironment, model: pathlib.Path
) -> None:
    op = MemSourceBatchOp(list(pack(str(model))), "model_id BIGINT, model_info STRING")
    path = pack_model_table(op)
    assert graph_in(path) == str(model.parent)
    os.remove(path)  # a second job would make it again
    assert pack_model_table(op) == path and not os.path.exists(path)


@pytest.mark.flink
def test_incomplete_model_table_is_refused_and_leaves_nothing(
    table_env: StreamTableEnvironment,
) -> None:
    before = sorted(os.listdir(program_folder()))
    table = table_env.sql_query(
        "SELECT CAST(model_id AS BIGINT) AS model_id, model_info FROM (VALUES (0, 'a.zip'), (2, 'eA==')) AS t(model_id, model_info)"
    )
    with pytest.raises(
        ConfigurationError,
        match="model table of TableSourceBatchOp: the rows of the model are incomplete: 1 of 3 are missing",
    ):
        pack_model_table(BatchOperator.fromTable(table))
    assert sorted(os.listdir(program_folder())) == before


def test_model_in_model_dir_is_linked_by_its_place(
    model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    where = str(tmp_path / "models")
    text = put_model(str(model), where)
    path = packed_rows([(0, text)], where)
    assert graph_in(path) == str(model.parent)
    assert placed_model(path) == PlacedModel(named_model(text), where)
    assert placed_model(packed_model("here", str(model))) is None


def test_model_files_are_packed_under_their_names(tmp_path: pathlib.Path) -> None:
    for name in ("m.onnx", "m.onnx.data", "m.onnx_data", "m.pkl"):
        (tmp_path / name).write_text(name)
    packed = packed_model("here", str(tmp_path / "m.onnx"))
    with zipfile.ZipFile(packed) as file:
        assert sorted(file.namelist()) == ["m.onnx", "m.onnx.data", "m.onnx_data"], (
            "PyTorch writes weights to a second file"
        )
    before = content_of(str(tmp_path / "m.onnx"))
    (tmp_path / "m.onnx.data").write_text("other weights")
    assert content_of(str(tmp_path / "m.onnx")) != before, "resumeDir has predictions of the former"
    assert kind_at(packed) == kind_at(str(tmp_path)) == ".onnx"
    with pytest.raises(
        ConfigurationError, match=r"here: .*m.pkl is a model of another framework: .*predictFn"
    ):
        packed_model("here", str(tmp_path / "m.pkl"))
    folder = ModelFolder(packed_model("here", str(tmp_path), is_any=True), of_function=True)
    assert sorted(os.listdir(folder.path)) == ["m.onnx", "m.onnx.data", "m.onnx_data", "m.pkl"], (
        "a function gets them all"
    )
    folder.remove()
    for name, files in [
        ("m.onnx", ["m.onnx", "m.onnx.data", "m.onnx_data"]),
        ("m.pkl", ["m.pkl"]),
    ]:
        path = str(tmp_path / name)
        for place in (path, packed_model("here", path, is_any=True)):
            folder = ModelFolder(place, of_function=True)
            assert sorted(os.listdir(folder.path)) == files, "in local jobs as on a cluster"
            assert pathlib.Path(folder.path, name).read_bytes() == pathlib.Path(path).read_bytes()
            folder.remove()


@pytest.mark.fault("data", "A PyTorch file of weights is refused before the job starts")
def test_a_file_of_torch_save_is_refused(tmp_path: pathlib.Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.pt", "w") as file:
        file.writestr("m/data.pkl", "")
    with pytest.raises(
        ConfigurationError,
        match=r"Op: modelPath: .*m.pt is not TorchScript: save the model with torch.export.save",
    ):
        model_for_job("Op: modelPath", str(tmp_path / "m.pt"), False)
