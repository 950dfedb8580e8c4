"""Saved pipelines in a plain program, without Flink and Java."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import pathlib
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from akdl.serving.loaded_model import RowsError, ServingError
from bridge.exceptions import ConfigurationError, SchemaError
from operators import LocalPredictor, PipelineModel, Predictor, TFSavedModelPredictor
from operators.local_predictor import DESCRIPTION, read_pipeline
from tests.akdl.serving import models
from tests.support.deadline import DEADLINE_S
from tests.support.http import served

needs_tf = pytest.mark.tf

COLUMNS = "id BIGINT, x ARRAY<FLOAT>, k BIGINT"
ROW = (7, [1.0, 2.0, 3.0], 0)
RESULT = (7, [1.0, 2.0, 3.0], 0, 12.0, 12.0)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A pipeline of two stages: p is twice the sum of x, and q is p."""
    first = TFSavedModelPredictor(
        modelPath=models.scaled(2.0), outputSchemaStr="p FLOAT", selectedCols=["x", "k"]
    )
    second = TFSavedModelPredictor(
        modelPath=models.identity("float32", (None,)), outputSchemaStr="q DOUBLE", selectedCols=["p"],
        inputSignatureDefs=["a"], outputSignatureDefs=["b"],
    )  # fmt: skip
    path = str(tmp_path_factory.mktemp("saved") / "pipeline")
    PipelineModel(first, second).save(path)
    return path


def written(path: Any, description: str, *models_of_stages: bytes) -> str:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(DESCRIPTION, description)
        for number, content in enumerate(models_of_stages):
            file.writestr(f"model_{number}.zip", content)
    return str(path)


@needs_tf
def test_local_predictor_predicts_one_row_and_many(saved: str) -> None:
    with LocalPredictor(saved, COLUMNS) as predictor:
        predictor.open()  # as programs for Alink do
        assert predictor.map(ROW) == RESULT
        assert predictor.predict(list(ROW)) == list(RESULT)
        assert predictor.map_batch([ROW] * 300) == [RESULT] * 300
        assert predictor.map_batch([]) == []


@needs_tf
def test_result_has_kept_and_predicted_columns(saved: str) -> None:
    with LocalPredictor(saved, COLUMNS) as predictor:
        assert predictor.getOutputColNames() == ["id", "x", "k", "p", "q"]
        assert predictor.getOutputColTypes() == [
            "BIGINT",
            "ARRAY<FLOAT>",
            "BIGINT",
            "FLOAT",
            "DOUBLE",
        ]
        assert (
            predictor.getOutputSchemaStr()
            == "id BIGINT, x ARRAY<FLOAT>, k BIGINT, p FLOAT, q DOUBLE"
        )


@needs_tf
def test_a_row_may_be_an_array(tmp_path: pathlib.Path) -> None:
    stage = TFSavedModelPredictor(
        modelPath=models.identity("float32", (None,)), outputSchemaStr="b FLOAT", selectedCols=["a"]
    )
    with stage.collectLocalPredictor("a FLOAT, `n o` BIGINT NOT NULL") as predictor:
        # as `getSchemaStr` of operators
        assert predictor.getOutputSchemaStr() == "a FLOAT, `n o` BIGINT, b FLOAT"
        assert predictor.predict(np.array([1.5, 1.0])) == [1.5, 1.0, 1.5]


@needs_tf
def test_a_model_without_names_takes_columns_in_the_order_of_selected_cols() -> None:
    stage = TFSavedModelPredictor(
        modelPath=models.identity("float32", (None, 2)), outputSchemaStr="y ARRAY<FLOAT>", selectedCols=["v", "u"],
        defaults={"u": 0.5}, reservedCols=["id"],
    )  # fmt: skip
    with stage.collectLocalPredictor("u FLOAT, v INT, id STRING") as predictor:
        assert predictor.map_batch([(1.5, 2, "a"), (None, 3, "b")]) == [
            ("a", [2.0, 1.5]),
            ("b", [3.0, 0.5]),
        ]


@needs_tf
def test_names_of_the_signature_and_the_version_of_the_model_are_used() -> None:
    stage = TFSavedModelPredictor(
        modelPath=models.module(), outputSchemaStr="id FLOAT, text STRING", selectedCols=["f", "id"], reservedCols=[],
        inputSignatureDefs=["x", "k"], outputSignatureDefs=["p", "logits"], modelCol="version",
    )  # fmt: skip
    with stage.collectLocalPredictor("id INT, f ARRAY<FLOAT>") as predictor:
        assert predictor.getOutputColNames() == ["id", "text", "version"]
        result = predictor.map((3, [1.0, 2.0, 4.0]))
    assert result[:2] == (3.0, "14.0 4.0") and result[2].startswith("akdl_model_")


@needs_tf
def test_neither_flink_nor_java_is_loaded(saved: str) -> None:
    code = (
        "import json, sys\n"
        "from operators import LocalPredictor\n"
        "with LocalPredictor(sys.argv[1], sys.argv[2]) as predictor:\n"
        "    row = predictor.map(json.loads(sys.argv[3]))\n"
        "print(json.dumps([row, sorted({'pyflink', 'py4j'} & set(sys.modules))]))\n"
    )
    command = [sys.executable, "-c", code, saved, COLUMNS, json.dumps(ROW)]
    answer = subprocess.run(
        command, capture_output=True, text=True, timeout=4 * DEADLINE_S, check=True
    )
    assert json.loads(answer.stdout) == [list(RESULT), []]


@needs_tf
def test_several_threads_predict_with_one_predictor(saved: str) -> None:
    results = {}
    with LocalPredictor(saved, COLUMNS) as predictor:

        def ask(number: int) -> None:
            results[number] = [
                predictor.map((i, [float(number), float(i), 0.0], 0))[4] for i in range(50)
            ]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * DEADLINE_S)
    assert results == {number: [2.0 * (number + i) for i in range(50)] for number in range(4)}


@needs_tf
def test_row_that_cannot_be_predicted_is_an_error_of_that_call(saved: str) -> None:
    with LocalPredictor(saved, COLUMNS) as predictor:
        with pytest.raises(RowsError, match="row 0: input 'x'"):
            predictor.map((7, None, 0))
        with pytest.raises(RowsError, match=r"expected 3 values \(id, x, k\), got 2"):
            predictor.map((1, 2))
        with pytest.raises(ServingError, match="one dimension"):
            predictor.predict(np.zeros((2, 2)))
        assert predictor.map(ROW) == RESULT


@needs_tf
def test_missing_columns_of_a_stage_are_refused(saved: str) -> None:
    with pytest.raises(
        ConfigurationError,
        match="LocalStage: parameter 'selectedCols' names 'k'; the input has 'id', 'x'",
    ):
        LocalPredictor(saved, "id BIGINT, x ARRAY<FLOAT>")


@needs_tf
def test_closing_removes_the_folder_and_may_be_repeated(
    saved: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    predictor = LocalPredictor(saved, COLUMNS)
    assert os.listdir(tmp_path)
    predictor.close()
    predictor.close()
    assert os.listdir(tmp_path) == []


@needs_tf
def test_saved_pipeline_is_read_from_an_address(saved: str) -> None:
    with open(saved, "rb") as file:
        site = served(files={"/saved": file.read()})
    with site as running, LocalPredictor(f"{running.url}/saved", COLUMNS) as predictor:
        assert predictor.map(ROW) == RESULT


def test_address_without_a_pipeline_is_an_error() -> None:
    with served(files={}) as site:
        with pytest.raises(
            ConfigurationError, match="the saved pipeline model cannot be read: .*/nope: HTTP 404"
        ):
            LocalPredictor(f"{site.url}/nope", COLUMNS)


def test_a_schema_that_cannot_be_leaves_no_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(SchemaError, match="unknown type 'FLOTE'"):
        LocalPredictor("/nowhere", "a FLOTE")
    assert os.listdir(tmp_path) == []


def test_a_saved_pipeline_may_name_an_environment_when_it_is_trusted(
    tmp_path: pathlib.Path,
) -> None:
    params = {"outputSchemaStr": "y FLOAT", "pythonEnv": "/tmp/theirs"}
    path = written(
        tmp_path / "p", json.dumps({"version": 1, "stages": [{"params": params}]}), b"one"
    )
    with pytest.raises(
        ConfigurationError, match="p, stage 0: the file sets 'pythonEnv'.*trusted=True"
    ):
        LocalPredictor(path, "a FLOAT")
    (stage,) = read_pipeline(path, str(tmp_path), trusted=True)
    assert stage["params"] == {**params, "trusted": True}


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b"PK nothing"),
        lambda path: written(path, "no JSON"),
        lambda path: written(path, "[]"),
        lambda path: written(path, '{"version": 1}'),
        lambda path: written(path, '{"version": 1, "stages": [{}]}'),
        lambda path: zipfile.ZipFile(path, "w").close(),
    ],
    ids=["no zip", "no JSON", "no object", "no stages", "no model", "empty"],
)
def test_file_without_a_saved_pipeline_is_refused(
    tmp_path: pathlib.Path, make: Callable[..., Any]
) -> None:
    make(tmp_path / "no.zip")
    with pytest.raises(ConfigurationError, match="no.zip is not a saved pipeline model"):
        read_pipeline(str(tmp_path / "no.zip"), str(tmp_path), trusted=False)


@pytest.mark.fault("security", "A pipeline file that expands beyond the limits is an error")
def test_pipeline_that_expands_beyond_the_limits_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 20 KB that would become 20 MB: more than the limits that are set here allow."""
    monkeypatch.setenv("AKDL_ARCHIVE_GB", str(1 / 1024))
    monkeypatch.setenv("AKDL_TEXT_MB", "1")
    path, description = (
        tmp_path / "bomb",
        {"version": 1, "stages": [{"params": {"outputSchemaStr": "y FLOAT"}}]},
    )
    for text, model, words in (
        (
            json.dumps(description),
            bytes(20 << 20),
            "unpack to more than 1048576 bytes; .* set AKDL_ARCHIVE_GB",
        ),
        (" " * (20 << 20), b"", "it has more than 1048576 bytes; .* set AKDL_TEXT_MB"),
    ):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(DESCRIPTION, text)
            file.writestr("model_0.zip", model)
        with pytest.raises(
            ConfigurationError, match=f"bomb is not a saved pipeline model: .*{words}"
        ):
            read_pipeline(str(path), str(tmp_path), trusted=False)
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 3 << 20


def test_pipeline_of_a_later_version_is_refused(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path / "later", '{"version": 2, "stages": []}')
    with pytest.raises(
        ConfigurationError, match="later: expected a pipeline model of version 1, got 2"
    ):
        read_pipeline(path, str(tmp_path), trusted=False)


def test_models_are_unpacked_into_the_folder(tmp_path: pathlib.Path) -> None:
    params = {"outputSchemaStr": "y FLOAT"}
    description = json.dumps(
        {"version": 1, "stages": [{"params": params, "model": "/etc/x"}, {"params": params}]}
    )
    path, folder = written(tmp_path / "pipeline", description, b"one", b"two"), tmp_path / "folder"
    folder.mkdir()
    stages = read_pipeline(path, str(folder), trusted=False)
    assert [os.path.dirname(stage["model"]) for stage in stages] == [str(folder)] * 2, (
        "whatever the file says"
    )
    assert [pathlib.Path(stage["model"]).read_bytes() for stage in stages] == [b"one", b"two"]


@needs_tf
def test_a_dict_of_arrays_gives_a_dict_of_arrays(saved: str) -> None:
    x = np.array([[1, 2, 3], [0, 0, 1]], "f4")
    with LocalPredictor(saved, COLUMNS) as predictor:
        given = {"id": [7, 8], "x": x, "k": np.zeros(2, "i8"), "label": [0, 1]}
        results = predictor.map_batch(given)
        assert (
            list(results) == ["id", "x", "k", "p", "q"]
            and results["x"] is x
            and results["id"] == [7, 8]
        )
        assert results["p"].dtype == np.float32 and results["q"].dtype == np.float64
        assert results["p"].tolist() == results["q"].tolist() == [12.0, 2.0]
        with pytest.raises(
            ServingError, match="expected the columns 'id', 'x', 'k'; the data lacks 'k'"
        ):
            predictor.map_batch({"id": [7], "x": x[:1]})
        with pytest.raises(
            ServingError, match="expected columns with 1 rows, got {'id': 1, 'x': 2, 'k': 2}"
        ):
            predictor.map_batch({"id": [7], "x": x, "k": [0, 0]})


@needs_tf
def test_bytes_keep_nul_and_are_refused_where_numpy_has_cut_it() -> None:
    stage = TFSavedModelPredictor(
        modelPath=models.identity("string", (None,)), outputSchemaStr="b BYTES", reservedCols=[]
    )
    with stage.collectLocalPredictor("a BYTES") as predictor:
        assert predictor.map_batch([(b"a\0",), (b"\0",)]) == [(b"a\0",), (b"\0",)]
        assert predictor.map_batch({"a": np.array([b"a\0"], object)})["b"].tolist() == [b"a\0"]
        with pytest.raises(
            ServingError,
            match=r"column 'a' \(BYTES\): expected bytes in a list or an array of objects",
        ):
            predictor.map_batch({"a": np.array([b"a\0"])})


def test_a_function_of_the_program_needs_no_trust(tmp_path: pathlib.Path) -> None:
    code = "def load():\n    return lambda batch: [2 * x for x in batch['x']]\n"
    (tmp_path / "twice.py").write_text(code)
    stage = Predictor(predictFn=f"{tmp_path}/twice.py:load", outputSchemaStr="y BIGINT")
    with stage.collectLocalPredictor("x BIGINT") as predictor:
        assert predictor.map((21,)) == (21, 42)


@pytest.mark.fault("data", "Two functions in a program have modules of the same names")
def test_functions_import_their_own_modules_of_the_same_names(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "of_predictor").mkdir()
    (tmp_path / "score.py").write_text(
        "import of_function\nfrom of_predictor import offset\n"
        "def load():\n"
        "    return lambda batch: batch['x'] * of_function.FACTOR + offset.OFFSET\n"
    )
    opened = []
    for factor in (2, 10):
        (tmp_path / "of_function.py").write_text(f"FACTOR = {factor}\n")
        (tmp_path / "of_predictor" / "offset.py").write_text(f"OFFSET = {factor}\n")
        files = [f"{tmp_path}/{name}" for name in ("score.py", "of_function.py", "of_predictor")]
        path = f"{tmp_path}/{factor}.akdl"
        stage = Predictor(predictFn="score.py:load", userFiles=files, outputSchemaStr="y DOUBLE")
        PipelineModel(stage).save(path)
        opened.append(LocalPredictor(path, "x DOUBLE", trusted=True))
    for predictor, expected in zip(opened, (4.0, 20.0)):
        with predictor:
            assert predictor.map((1.0,)) == (1.0, expected)


def test_decimals_and_points_in_time_reach_a_function_as_in_a_job(tmp_path: pathlib.Path) -> None:
    (tmp_path / "score.py").write_text(
        "def load():\n    return lambda batch: [str([str(cell) for cell in row]) for row in zip(*batch.values())]\n"
    )
    columns = "d DATE, h TIME, t TIMESTAMP, z TIMESTAMP_LTZ, e DECIMAL(10, 2)"
    path = str(tmp_path / "pipeline")
    PipelineModel(
        Predictor(predictFn=f"{tmp_path}/score.py:load", outputSchemaStr="y STRING", reservedCols=["d"])
    ).save(path)  # fmt: skip
    zone = datetime.timezone(datetime.timedelta(hours=2))
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 6)
    date, price = datetime.date(2024, 1, 2), decimal.Decimal("1.50")
    row = (date, datetime.time(0, 0, 1), moment, moment.replace(tzinfo=zone), price)
    as_texts = ("2024-01-02", "00:00:01", "2024-01-02 03:04:05.000006", "2024-01-02T01:04:05.000006", "1.5")  # fmt: skip
    cells = ["2024-01-02", "1000", "2024-01-02T03:04:05.000006", "2024-01-02T01:04:05.000006", "1.50"]  # fmt: skip
    with LocalPredictor(path, columns, trusted=True) as predictor:
        assert predictor.map_batch([row, as_texts]) == [
            (date, str(cells)),
            (as_texts[0], str(cells)),
        ]
        with pytest.raises(ServingError, match=r"wrote row 0: column 'd' \(DATE\): expected "):
            predictor.map(("x", *row[1:]))
        with pytest.raises(
            ServingError, match=r"column 'e' \(DECIMAL\(10, 2\)\): expected .*, got 1.5"
        ):
            predictor.map((*row[:4], 1.5))


@needs_tf
def test_a_data_frame_gives_a_data_frame(saved: str) -> None:
    frame = pd.DataFrame(
        {"k": [0, 0], "id": pd.array([7, None], "Int64"), "x": [[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]},
        index=[5, 3],
    )
    with LocalPredictor(saved, COLUMNS) as predictor:
        results = predictor.map_batch(frame)
        assert list(results) == ["id", "x", "k", "p", "q"] and list(results.index) == [5, 3]
        assert results["id"].equals(frame["id"]) and results["q"].to_list() == [12.0, 2.0]
        assert results["p"].dtype == np.float32
        frame["k"] = pd.array([0, None], "Int64")
        with pytest.raises(RowsError, match="^row 1: input 'k'.*expected a value, got null$"):
            predictor.map_batch(frame)


@needs_tf
def test_data_frame_with_arrays_and_texts_gives_a_data_frame() -> None:
    for column, values in (
        ("b ARRAY<FLOAT>", [[1.0, 2.0], [0.0, 0.5]]),
        ("b STRING", ["1.0 2.0", "0.0 0.5"]),
    ):
        stage = TFSavedModelPredictor(
            modelPath=models.identity("float32", (None, 2)), outputSchemaStr=column, selectedCols=["a"], reservedCols=[],
            defaults={"a": [0.0, 0.5]},
        )  # fmt: skip
        with stage.collectLocalPredictor("a ARRAY<FLOAT>") as predictor:
            results = predictor.map_batch(pd.DataFrame({"a": [[1.0, 2.0], None]}))
            assert [
                getattr(cell, "tolist", lambda cell=cell: cell)() for cell in results["b"]
            ] == values
            assert predictor.map_batch({"a": [[1.0, 2.0], None]})["b"].tolist() == values
