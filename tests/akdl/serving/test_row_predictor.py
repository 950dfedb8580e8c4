"""The predictor of a plain Python process."""

from __future__ import annotations

import pathlib
import shutil
import tarfile
import tempfile
import threading
from typing import Any

import numpy as np
import pytest

from akdl.serving.prediction_errors import RowsError, ServingError
from akdl.serving.row_predictor import RowPredictor, result_columns
from akdl.storage.model_archive import ModelError, pack
from tests.akdl.serving import models
from tests.support.deadline import DEADLINE_S
from tests.support.http import served

needs_tf = [pytest.mark.tf, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")]


@pytest.mark.parametrize(
    ("reserved", "outputs", "wanted"),
    [
        (["a", "b", "c"], ["y"], [("a", 0), ("b", 1), ("c", 2), ("y", None)]),
        (["c", "a"], ["y", "z"], [("a", 0), ("c", 2), ("y", None), ("z", None)]),
        ([], ["y"], [("y", None)]),
        (["a", "b", "c"], ["z", "b"], [("a", 0), ("b", None), ("c", 2), ("z", None)]),
        (["a"], ["b", "z"], [("a", 0), ("b", None), ("z", None)]),
    ],
)
def test_result_columns(reserved: list[str], outputs: list[str], wanted: list[tuple[str, int | None]]) -> None:
    assert result_columns(["a", "b", "c"], reserved, outputs) == wanted


COLUMNS = ["id", "x", "k"]
SCHEMA = [("logits", "ARRAY<FLOAT>"), ("p", "DOUBLE")]
ROW = ("a", [1.0, 2.0, 4.0], 3)
RESULT = ("a", [1.0, 2.0, 4.0], 3, [14.0, 4.0], 3.0)


def predictor_of(model: Any = None, **options: Any) -> RowPredictor:
    options = {"selected_cols": ["x", "k"], **options}
    return RowPredictor(models.module() if model is None else model, COLUMNS, SCHEMA, **options)


@pytest.mark.tf
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_one_row_and_many() -> None:
    with predictor_of() as predictor:
        assert predictor.output_columns == ["id", "x", "k", "logits", "p"]
        assert predictor.map(ROW) == RESULT
        assert predictor.predict(list(ROW)) == list(RESULT)
        assert predictor.map_batch([ROW] * 300) == [RESULT] * 300
        assert predictor.map_batch([]) == []


@pytest.mark.tf
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_an_array_of_one_dimension() -> None:
    with RowPredictor(models.identity("float64", (None,)), ["a"], [("b", "DOUBLE")]) as predictor:
        assert predictor.predict(np.array([2.5])) == [2.5, 2.5]
        with pytest.raises(ServingError, match="one dimension"):
            predictor.predict(np.zeros((2, 2)))


@pytest.mark.tf
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_names_of_the_signature() -> None:
    arguments = {"selected_cols": ["f", "id"], "input_signature_defs": ["x", "k"], "output_signature_defs": ["p", "logits"]}
    schema = [("id", "FLOAT"), ("text", "STRING")]
    with RowPredictor(models.module(), ["id", "f"], schema, reserved_cols=[], **arguments) as predictor:
        assert predictor.output_columns == ["id", "text"]
        assert predictor.map((3, "1 2 4")) == (3.0, "14.0 4.0")


@pytest.mark.tf
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_rows_of_a_model_table_in_any_order() -> None:
    with predictor_of(reversed(list(pack(models.module())))) as predictor:
        assert predictor.map(ROW) == RESULT


@pytest.mark.tf
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("suffix", ["zip", "gztar", "tar"])
@pytest.mark.parametrize("folder", ["", "model/"])
def test_archive(tmp_path: pathlib.Path, suffix: str, folder: str) -> None:
    shutil.copytree(models.module(), tmp_path / "packed" / folder)
    file = shutil.make_archive(str(tmp_path / "m"), suffix, tmp_path / "packed")
    with predictor_of(file) as predictor:
        assert predictor.map(ROW) == RESULT


@pytest.mark.tf
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_addresses(tmp_path: pathlib.Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    file = pathlib.Path(shutil.make_archive(str(tmp_path / "m"), "gztar", models.module()))
    system = fsspec.filesystem("memory")
    system.put(models.module(), "/akdl_served", recursive=True)
    with served(files={"/model": file.read_bytes()}) as site:
        for address in (f"{site.url}/model", file.as_uri(), "memory://akdl_served", f"file://{models.module()}"):
            with predictor_of(address) as predictor:
                assert predictor.map(ROW) == RESULT
        with pytest.raises(ModelError, match="the model cannot be read: .*/nope: HTTP 404"):
            predictor_of(f"{site.url}/nope")
    system.rm("/akdl_served", recursive=True)


@pytest.mark.tf
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_not_an_archive(tmp_path: pathlib.Path) -> None:
    (tmp_path / "m.zip").write_text("text")
    with pytest.raises(ModelError, match="expected the folder of a SavedModel, a zip or tar file of one"):
        predictor_of(str(tmp_path / "m.zip"))
    with tarfile.open(tmp_path / "out.tar", "w") as archive:
        archive.add(models.module() + "/saved_model.pb", "../saved_model.pb")
    with pytest.raises(ModelError, match="would leave its folder"):
        predictor_of(str(tmp_path / "out.tar"))


@pytest.mark.tf
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_close(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = list(pack(models.module()))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    predictor = predictor_of(rows)
    assert list(tmp_path.iterdir())
    predictor.close()
    predictor.close()
    assert not list(tmp_path.iterdir())
    with pytest.raises(ServingError, match="is closed"):
        predictor.map(ROW)


@pytest.mark.tf
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_bad_rows() -> None:
    rows = [ROW, ("b", None, 1), ROW]
    with predictor_of() as predictor:
        with pytest.raises(RowsError, match="row 1: input 'x'"):
            predictor.map_batch(rows)
        results, bad = predictor.map_batch_collecting(rows)
        assert results == [RESULT, ("b", None, 1, None, None), RESULT]
        assert [row for row, _ in bad] == [1]
        with pytest.raises(RowsError, match=r"expected 3 values \(id, x, k\), got 2"):
            predictor.map((1, 2))


@pytest.mark.tf
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"selected_cols": ["x", "z"]}, "selectedCols names 'z'; the columns are 'id', 'x', 'k'"),
        ({"reserved_cols": ["z"]}, "reservedCols names 'z'"),
        ({"input_signature_defs": ["x"]}, "inputSignatureDefs: expected 2 names for the columns of selectedCols"),
        ({"output_signature_defs": ["x"]}, "outputSignatureDefs: expected 2 names for the columns of outputSchemaStr"),
        ({"infer_batch_size": 0}, "inferBatchSize: expected at least 1, got 0"),
        ({"selected_cols": None}, "no input 'id'"),
    ],
)
def test_arguments_that_do_not_fit(options: Any, message: str) -> None:
    with pytest.raises(ServingError, match=message):
        predictor_of(**options)


@pytest.mark.tf
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_threads() -> None:
    results: list[Any] = []
    with predictor_of() as predictor:
        threads = [threading.Thread(target=lambda: results.extend(predictor.map(ROW) for _ in range(50))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * DEADLINE_S)
    assert results == [RESULT] * 300


def test_a_column_that_is_to_stay_is_no_output() -> None:
    with pytest.raises(ServingError, match="reservedCols and outputSchemaStr both name 'id'"):
        RowPredictor("/nowhere", COLUMNS, [("id", "DOUBLE")], reserved_cols=["id"])
