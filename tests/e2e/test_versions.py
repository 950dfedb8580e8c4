"""Scripts in real environments with the oldest and the newest TensorFlow, beside a Flink side with
another one.

TF 2.15 is what all other tests run on, so the matrix here are the two ends.
"""

from __future__ import annotations

import json
import os
import pathlib
import runpy
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from operators import (
    MLEnv,
    StreamOperator,
    TaskError,
    TensorFlow2BatchOp,
    TensorFlow2StreamOp,
    TensorFlowBatchOp,
    TensorFlowStreamOp,
    TF2TableModelTrainBatchOp,
    TFTableModelPredictBatchOp,
    TFTableModelTrainBatchOp,
    getMLEnv,
    resetEnv,
    useLocalEnv,
)
from tests.e2e.jobs import SCRIPTS, points, sequence
from tests.e2e.test_examples import check_output
from tests.support.page_blocks import run_page
from tests.support.tensorflows import NEWEST, TF_1

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.flink,
    pytest.mark.tf,
    pytest.mark.slow,
    pytest.mark.own_processes,
]

ROOT = pathlib.Path(__file__).parents[2]
WIRE = """
from akdl.wire import Chunk, Example
example = Example()
example.features.feature["a"].int64_list.value.extend([1, -1])
example.features.feature["b"].bytes_list.value.append(b"x")
assert Example.FromString(example.SerializeToString()) == example
assert Chunk.FromString(Chunk(columns=b"x", rows=3).SerializeToString()).rows == 3
"""


class Old:
    """TensorFlow 1.15 and the operators that mean it."""

    name = "in_graph_mode"
    batch_op, stream_op, train_op = TensorFlowBatchOp, TensorFlowStreamOp, TFTableModelTrainBatchOp
    python = TF_1.python

    @staticmethod
    def is_right(version: str) -> bool:
        return version == "1.15.5"


class New:
    """The newest TensorFlow, with Keras 3."""

    name = "by_keras_3"
    batch_op, stream_op, train_op = (
        TensorFlow2BatchOp,
        TensorFlow2StreamOp,
        TF2TableModelTrainBatchOp,
    )
    python = NEWEST.python

    @staticmethod
    def is_right(version: str) -> bool:
        return tuple(map(int, version.split(".")[:2])) >= (2, 16)


@pytest.fixture(scope="module", autouse=True)
def _local_env() -> Iterator[MLEnv]:
    yield useLocalEnv(2)
    resetEnv()


@pytest.fixture(scope="module", params=[Old, New], ids=["tf-1.15", "tf-newest"])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def python(kind: Any) -> Any:
    return kind.python()


def script(op: type, kind: type, name: str, python: str, **params: Any) -> Any:
    file = str(SCRIPTS / "versions" / f"{name}_{kind.name}.py")
    return op(
        userFiles=[file], mainScriptFile=file, pythonEnv=python, numWorkers=1, numPSs=0, **params
    )


def with_x(ids: Any) -> Any:
    return ids.select("id, CAST(id AS FLOAT) AS x")


ROWS = "id BIGINT, y FLOAT, version STRING"
EXPECTED = [(number, 2.0 * number + 1) for number in range(100)]


def test_messages_work_with_the_protobuf_of_each_version(python: Any) -> None:
    done = subprocess.run(
        [python, "-c", WIRE],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_batch_script_runs_with_each_version(kind: Any, python: Any) -> None:
    op = script(kind.batch_op, kind, "rows", python, outputSchemaStr=ROWS)
    found = with_x(sequence(getMLEnv().btenv, 100)).link(op).collectToDataframe()
    assert sorted(zip(found.id, found.y)) == EXPECTED
    assert all(map(kind.is_right, found.version))


# A stream differs from a batch in Flink and not in TensorFlow.
@pytest.mark.long
def test_stream_script_runs_with_each_version(
    kind: Any, python: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    op = script(kind.stream_op, kind, "rows", python, outputSchemaStr=ROWS)
    rows = StreamOperator.fromTable(sequence(getMLEnv().stenv, 100).getOutputTable())
    with_x(rows).link(op).print()
    StreamOperator.execute()
    cells = [line.split(", ") for line in capsys.readouterr().out.splitlines()[1:]]
    assert sorted((int(number), float(y)) for number, y, _ in cells) == EXPECTED
    assert all(kind.is_right(version) for _, _, version in cells)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Old, id="tf-1.15"),
        pytest.param(New, id="tf-newest", marks=pytest.mark.long),
    ],
    indirect=True,
)
def test_model_predicts_the_same_in_the_default_environment(
    kind: Any, python: Any, tmp_path: pathlib.Path
) -> None:
    rows = points(getMLEnv().btenv, 50)
    told = tmp_path / "told.json"
    train = script(kind.train_op, kind, "train", python, userParams={"told": str(told)})
    predict = TFTableModelPredictBatchOp(outputSchemaStr="y FLOAT", selectedCols=["x"])
    inputs = rows.select("ARRAY[x0, x1] AS x, x0, x1")
    found = predict.linkFrom(rows.link(train), inputs).collectToDataframe()
    version, x, y = json.loads(told.read_text())
    assert kind.is_right(version)
    expected = {tuple(place): value for place, value in zip(x, y)}
    assert len(expected) == len(found) == 50 and len(set(y)) > 10
    for x0, x1, value in zip(found.x0, found.x1, found.y):
        assert value == pytest.approx(expected[x0, x1], rel=1e-5, abs=1e-6)


# A test of environments by uv runs two TensorFlows in one job too.
@pytest.mark.long
def test_one_job_runs_two_versions_of_tensorflow() -> None:
    one = script(TensorFlowBatchOp, Old, "rows", TF_1.python(), outputSchemaStr=ROWS)
    two = script(TensorFlow2BatchOp, New, "rows", NEWEST.python(), outputSchemaStr=ROWS)
    halfway = with_x(sequence(getMLEnv().btenv, 20)).link(one)
    found = halfway.select("id, y AS x").link(two).collectToDataframe()
    assert sorted(zip(found.id, found.y)) == [(number, 4.0 * number + 3) for number in range(20)]
    assert all(map(New.is_right, found.version))


@pytest.mark.long
@pytest.mark.parametrize("example", ["own_data", "wide_and_deep"])
def test_examples_run_with_keras_3(
    example: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TF231_PYTHON_ENV_PATH", NEWEST.python())
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / example / "job.py"), run_name="__main__")
    check_output(example, capsys.readouterr().out)


@pytest.mark.long
def test_the_first_steps_run_with_keras_3(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF231_PYTHON_ENV_PATH", NEWEST.python())
    monkeypatch.chdir(tmp_path)
    assert run_page(ROOT / "docs" / "first_steps.md", tmp_path / "page") == []


def save_a_file(task_config: Any) -> None:
    import tensorflow as tf

    x = tf.keras.Input([1], name="x0")
    model = tf.keras.Model({"x0": x}, {"y": tf.keras.layers.Rescaling(3.0, name="y")(x)})
    model.save(task_config.saved_model_dir + "/trained.keras")


def save_into_a_folder(task_config: Any) -> None:
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.Input([1], name="x0"), tf.keras.layers.Dense(1)])
    raise AssertionError("the training has begun")
    model.save(task_config.saved_model_dir)


def fit_in_step(task_config: Any) -> None:
    import tensorflow as tf

    from akdl.engine.strategy import choose_strategy
    from akdl.engine.train import train_keras_model

    with choose_strategy(task_config).scope():
        model = tf.keras.Sequential([tf.keras.Input([1], name="x0"), tf.keras.layers.Dense(1)])
    train_keras_model(model, {}, {}, task_config)


def train_on_newest(script: Any, **params: Any) -> Any:
    op = TF2TableModelTrainBatchOp(
        mainScriptFile=script, pythonEnv=NEWEST.python(), numPSs=0, **params
    )
    return points(getMLEnv().btenv, 8).link(op)


@pytest.mark.long
def test_a_file_of_keras_becomes_a_model() -> None:
    predict = TFTableModelPredictBatchOp(outputSchemaStr="y FLOAT", selectedCols=["x0"])
    found = predict.linkFrom(
        train_on_newest(save_a_file, numWorkers=1), points(getMLEnv().btenv, 8)
    ).collectToDataframe()
    assert len(found) == 8 and list(found.y) == pytest.approx(list(3 * found.x0), rel=1e-6)


@pytest.mark.parametrize(
    ("script", "workers", "told"),
    [
        pytest.param(
            save_into_a_folder,
            1,
            r"line \d+: Keras 3[\d.]+ does not save models to folders.* write model.export",
            id="folder",
        ),
        pytest.param(
            fit_in_step,
            2,
            "Keras 3 does not train with TensorFlow's strategies of several workers: .*TF_USE_LEGACY_KERAS=1",
            id="group",
            marks=pytest.mark.long,
        ),
    ],
)
@pytest.mark.fault(
    "scripts",
    "Groups and SavedModel folders that Keras 3 does not support are refused before the training",
)
def test_keras_3_is_refused_before_the_training(script: Any, workers: int, told: str) -> None:
    with pytest.raises(TaskError, match=told):
        train_on_newest(script, numWorkers=workers).collectToDataframe()
