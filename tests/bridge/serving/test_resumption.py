"""Predictions that a later run takes over: after a failed job, after a killed program, with other
models and columns.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bridge.exceptions import ConfigurationError, RowError, TaskError
from bridge.serving import prediction, resumption
from bridge.serving.prediction import RequestSize
from operators import (
    BatchOperator,
    MemSourceBatchOp,
    ParquetSinkBatchOp,
    ParquetSourceBatchOp,
    PredictBatchOp,
    TFSavedModelPredictBatchOp,
    useLocalEnv,
)
from tests.support.environment import ENVIRONMENT
from tests.support.leftovers import DEADLINE_S, wait_until

pytestmark = pytest.mark.flink
ROWS = 3000
SCORE = """
import os, time

def load(place):
    def predict(batch):
        with open(f"{place}/predicted", "a") as file:
            file.write("".join(f"{each}\\n" for each in batch["id"]))
        while batch["id"].max() > 1000 and os.path.exists(f"{place}/holds"):
            time.sleep(0.05)
        if batch["id"].max() > 2000 and os.path.exists(f"{place}/crashes"):
            os._exit(3)
        if (batch["id"] == 7).any():
            raise ValueError("seven")
        return {"y": batch["x"] * 2}
    return predict
"""
JOB = """
import sys
from bridge.serving import resumption
from tests.bridge.serving import test_resumption

resumption._PART_S = 0.0
test_resumption.run(sys.argv[1])
"""


def run(place: str, **params: Any) -> None:
    useLocalEnv(1)
    values = {
        "predictFn": f"{place}/score.py:load", "userParams": {"place": place}, "selectedCols": ["id", "x"], "errorCol": "why",
        "outputSchemaStr": "y DOUBLE", "resumeDir": f"{place}/kept", "idCol": "id", "inferBatchSize": 100, **params,
    }  # fmt: skip
    # One row group has one batch of 100 rows, so that results arrive one after the other.
    rows = ParquetSourceBatchOp(filePath=f"{place}/rows.parquet").link(PredictBatchOp(**values))
    rows.link(ParquetSinkBatchOp(filePath=f"{place}/result.parquet", overwriteSink=True))
    BatchOperator.execute()


@pytest.fixture
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(resumption, "_PART_S", 0.0)
    (tmp_path / "score.py").write_text(SCORE)
    table = pa.table(
        {
            "id": range(ROWS),
            "x": [each / 2 for each in range(ROWS)],
            "s": [f"row {each}" for each in range(ROWS)],
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=100)
    return tmp_path


def kept(place: pathlib.Path) -> list[int]:
    tables = [pa.ipc.open_file(path).read_all() for path in place.glob("kept/*/part-*.feather")]
    return sorted(pa.concat_tables(tables)["akdl_id"].to_pylist()) if tables else []


def predicted(place: pathlib.Path) -> list[int]:
    """Ids of rows that the function has got since the last call; a batch with row 7 is halved."""
    found = [int(line) for line in (place / "predicted").read_text().split()]
    (place / "predicted").write_text("")
    return sorted(set(found))


def check_result(place: pathlib.Path) -> None:
    found = pq.read_table(place / "result.parquet").sort_by("id")
    assert found.column_names == ["id", "x", "s", "y", "why"]
    assert found["id"].to_pylist() == list(range(ROWS)) and found["s"].to_pylist() == [
        f"row {each}" for each in range(ROWS)
    ]
    assert found["y"].to_pylist() == [None if each == 7 else float(each) for each in range(ROWS)]
    assert [row for row, why in enumerate(found["why"].to_pylist()) if why is not None] == [7]


@pytest.mark.fault(
    "jobs",
    "A batch prediction that fails continues with the rows that it lacks, and predicts none twice",
)
def test_failed_job_resumes_with_the_missing_rows(
    place: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "crashes").touch()
    with pytest.raises(TaskError, match="the process that serves the model has ended"):
        run(str(place))
    first = kept(place)
    assert 0 < len(first) == len(set(first)) < ROWS and set(first) <= set(predicted(place))
    assert not (place / "result.parquet").exists()
    (place / "crashes").unlink()
    run(str(place), inferBatchSize=50)
    assert (
        f"PredictBatchOp: {len(first)} predicted rows are in {place}/kept; the others"
        in capsys.readouterr().out
    )
    assert predicted(place) == sorted(set(range(ROWS)) - set(first))
    assert kept(place) == list(range(ROWS))
    check_result(place)
    (part, *_) = place.glob("kept/*/part-*.feather")  # as from a task that was started again
    (part.parent / f"part-{16 * '0'}{part.name[21:]}").write_bytes(part.read_bytes())
    # of tasks that were killed while they wrote: a moment ago, or hours; and a file of somebody
    leftover, dead, other = (
        part.parent / f".part-{name}"
        for name in (f"{16 * '1'}-7.feather", f"{16 * '2'}-7.feather", "x")
    )
    for each in (leftover, dead, other):
        each.write_bytes(b"a part")
        os.utime(each, None if each is leftover else (0, 0))
    run(str(place))
    assert predicted(place) == []
    check_result(place)
    assert leftover.exists() and not dead.exists() and other.exists()
    (place / "score.py").write_text(SCORE.replace("* 2", "* 3"))
    run(str(place))
    assert predicted(place) == list(range(ROWS)), "another model begins from scratch"


@pytest.mark.fault(
    "jobs",
    "A prediction keeps the finished rows of a chunk of rows that it has not predicted as a whole",
)
def test_rows_of_a_chunk_are_kept_before_it_is_predicted_as_a_whole(place: pathlib.Path) -> None:
    pq.write_table(
        pq.read_table(place / "rows.parquet"), place / "rows.parquet", row_group_size=ROWS
    )
    (place / "crashes").touch()
    with pytest.raises(TaskError, match="the process that serves the model has ended"):
        run(str(place), inferBatchSize=256)
    first = kept(place)
    assert first and first == list(range(len(first)))


@pytest.mark.fault(
    "jobs", "A row that fails a prediction does not take along the rows that were predicted with it"
)
def test_failing_row_does_not_take_along_the_rows_next_to_it(
    place: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "RequestSize", lambda least: RequestSize(100))
    with pytest.raises(
        RowError, match="row 7 of a batch cannot be predicted: .*: ValueError: seven"
    ):
        run(str(place), errorCol=None)
    assert set(range(100)) - set(kept(place)) == {7}


@pytest.mark.long
@pytest.mark.fault(
    "jobs",
    "A program that is killed in the middle of a batch prediction leaves whole files to continue from",
)
def test_killed_program_resumes_with_the_missing_rows(place: pathlib.Path) -> None:
    (place / "holds").touch()
    program = subprocess.Popen([sys.executable, "-c", JOB, str(place)], env=ENVIRONMENT)
    try:
        # The batch that holds may have had its turn before two others that were sent with it.
        wait_until(lambda: len(kept(place)) >= 800, "files of predictions", 10 * DEADLINE_S)
    finally:
        program.kill()
        program.wait()
    first = kept(place)
    (place / "holds").unlink()
    predicted(place)
    run(str(place))
    assert predicted(place) == sorted(set(range(ROWS)) - set(first))
    check_result(place)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"idCol": None}, "resumeDir needs idCol"),
        ({"idCol": "i"}, "parameter 'idCol' names 'i'"),
        ({"idCol": "x"}, "idCol: expected a column of integers or texts, got 'x', DOUBLE"),
        ({"resumeDir": "/proc/kept"}, "resumeDir: /proc/kept: "),
    ],
)
def test_wrong_settings_of_a_resumption_are_refused_when_linked(
    tmp_path: pathlib.Path, params: dict[str, Any], message: str
) -> None:
    useLocalEnv(1)
    (tmp_path / "saved_model.pb").touch()
    values = {
        "modelPath": str(tmp_path), "outputSchemaStr": "y DOUBLE", "resumeDir": str(tmp_path / "kept"), "idCol": "id", **params,
    }  # fmt: skip
    with pytest.raises(ConfigurationError, match=f"TFSavedModelPredictBatchOp: {message}"):
        MemSourceBatchOp([(1, 0.5)], "id BIGINT, x DOUBLE").link(
            TFSavedModelPredictBatchOp(**values)
        )


@pytest.mark.fault("data", "A run with other weights in a large file predicts all rows again")
def test_another_file_or_candidate_begins_from_scratch(place: pathlib.Path) -> None:
    weights, candidate = place / "weights.npz", place / "candidate"
    candidate.mkdir()
    values = {
        "predictFn": f"{place}/score.py:load", "selectedCols": ["id", "x"], "outputSchemaStr": "y DOUBLE", "idCol": "id",
        "userFiles": [str(weights)], "userParams": {"place": str(place)}, "candidatePath": str(candidate),
        "modelPath": str(candidate), "resumeDir": f"{place}/kept",
    }  # fmt: skip
    large = bytes(2 << 20)
    for weight, other in ((b"1", b"1"), (b"2", b"1"), (b"2", b"2"), (b"1", b"1")):
        weights.write_bytes(large + weight)
        (candidate / "w").write_bytes(other)
        ParquetSourceBatchOp(filePath=f"{place}/rows.parquet").link(
            PredictBatchOp(**values)
        ).getOutputTable()
    assert len(list(place.glob("kept/*"))) == 3


def test_resources_and_trust_do_not_begin_from_scratch(place: pathlib.Path) -> None:
    values = {
        "predictFn": f"{place}/score.py:load", "userParams": {"place": str(place)}, "outputSchemaStr": "y DOUBLE",
        "resumeDir": f"{place}/kept", "idCol": "id",
    }  # fmt: skip
    rows = ParquetSourceBatchOp(filePath=f"{place}/rows.parquet")
    for name, other in (("modelCacheBytes", 9), ("intraOpParallelism", 2), ("trusted", True)):
        for changed in ({}, {name: other}):
            rows.link(PredictBatchOp(**values, **changed)).getOutputTable()
    assert len(list(place.glob("kept/*"))) == 1


def test_unfinished_file_in_a_storage_without_times_is_left_alone(place: pathlib.Path) -> None:
    system, name = fsspec.filesystem("memory"), f".part-{'a' * 16}-7.feather"
    assert resumption._UNFINISHED.fullmatch(name)
    values = {
        "predictFn": f"{place}/score.py:load",
        "selectedCols": ["id", "x"],
        "outputSchemaStr": "y DOUBLE",
        "idCol": "id",
    }
    values["resumeDir"] = "memory://resumed"
    try:
        for is_there in (False, True):
            op = PredictBatchOp(**values, userParams={"place": str(place)})
            ParquetSourceBatchOp(filePath=f"{place}/rows.parquet").link(op).getOutputTable()
            (folder,) = system.ls("/resumed", detail=False)
            assert system.exists(f"{folder}/{name}") == is_there
            system.pipe(f"{folder}/{name}", b"cut off")
    finally:
        system.rm("/resumed", recursive=True)
