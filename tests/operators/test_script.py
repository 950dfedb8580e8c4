"""What linking a script operator checks and makes, whatever its kind."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from akdl.storage.training_folders import CheckpointFolder
from bridge.exceptions import ConfigurationError, SchemaError
from operators import (
    BatchOperator,
    KerasSequentialRegressorTrainBatchOp,
    MLEnv,
    StreamOperator,
    TableSourceBatchOp,
    TensorFlow2BatchOp,
    TensorFlow2StreamOp,
    TensorFlowBatchOp,
    TensorFlowStreamOp,
    TF2TableModelTrainBatchOp,
    TFTableModelTrainBatchOp,
    useLocalEnv,
)


@pytest.fixture(scope="module")
def source(env: MLEnv) -> TableSourceBatchOp:
    return BatchOperator.fromTable(
        env.btenv.sql_query("SELECT 1 AS a, 'x' AS b, INTERVAL '1' DAY AS c")
    )


@pytest.fixture
def files(tmp_path: pathlib.Path) -> dict[Any, Any]:
    script = tmp_path / "main.py"
    script.write_text("def main(config): pass\n")
    return {"userFiles": [str(script)], "mainScriptFile": str(script)}


@pytest.fixture
def op(files: dict[Any, Any]) -> TensorFlow2BatchOp:
    return TensorFlow2BatchOp(**files, outputSchemaStr="x INT, y ARRAY<STRING>")


@pytest.mark.parametrize("kind", [TensorFlowBatchOp, TensorFlowStreamOp])
def test_all_missing_parameters_are_named(kind: type[Any]) -> None:
    with pytest.raises(ConfigurationError) as raised:
        kind().linkFrom(BatchOperator() if kind is TensorFlowBatchOp else StreamOperator())
    assert str(raised.value) == (
        f"{kind.__name__}: set 'mainScriptFile', 'outputSchemaStr' before it is linked or run"
    )


def test_stop_leaves_a_request_in_the_folder_of_checkpoints(
    op: TensorFlow2BatchOp, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"TensorFlow2BatchOp\.stop\(\): .* set checkpointDir before the job starts",
    ):
        op.stop()
    op.setCheckpointDir(str(tmp_path / "checkpoints")).stop()
    assert CheckpointFolder(op.getCheckpointDir(), str(tmp_path)).is_asked_to_stop()
    with pytest.raises(
        ConfigurationError,
        match=r"stop\(\): parameter 'checkpointDir': nosuch://bucket: it cannot be reached",
    ):
        op.setCheckpointDir("nosuch://key:secret@bucket").stop()


def test_stop_of_a_training_of_layers_is_in_its_own_folder(tmp_path: pathlib.Path) -> None:
    op = KerasSequentialRegressorTrainBatchOp(
        tensorCol="x", labelCol="y", layers=["Dense(8)"], checkpointFilePath=str(tmp_path)
    )
    op.stop()
    assert (tmp_path / "STOP").exists()
    with pytest.raises(ConfigurationError, match=r"set checkpointFilePath before the job starts"):
        op.setCheckpointFilePath(None).stop()


@pytest.mark.flink
def test_the_output_has_the_schema_that_was_asked_for(
    source: TableSourceBatchOp, op: TensorFlow2BatchOp
) -> None:
    assert source.link(op.setSelectedCols(["b", "a"])) is op
    assert op.getColNames() == ["x", "y"]
    assert op.getColTypes() == ["INT", "ARRAY<STRING>"]
    with pytest.raises(ConfigurationError, match="'numWorkers' is set too late"):
        op.setNumWorkers(2)


@pytest.mark.flink
def test_the_output_of_a_training_is_a_model_table(
    source: TableSourceBatchOp, files: dict[Any, Any]
) -> None:
    op = source.link(TF2TableModelTrainBatchOp(**files, selectedCols=["a"]))
    assert (op.getColNames(), op.getColTypes()) == (
        ["model_id", "model_info"],
        ["BIGINT", "STRING"],
    )


@pytest.mark.flink
def test_unknown_selected_columns_are_refused(
    source: TableSourceBatchOp, op: TensorFlow2BatchOp
) -> None:
    with pytest.raises(
        ConfigurationError, match="'selectedCols' names 'd', 'e'; the input has 'a', 'b', 'c'"
    ):
        op.setSelectedCols(["a", "d", "e"]).linkFrom(source)


@pytest.mark.flink
def test_columns_of_unsupported_types_are_refused_unless_dropped(
    source: TableSourceBatchOp, op: TensorFlow2BatchOp
) -> None:
    with pytest.raises(SchemaError, match="TensorFlow2BatchOp: the column 'c' has the type"):
        op.linkFrom(source)
    with pytest.raises(
        SchemaError, match="TensorFlow2BatchOp, extra input 1: the column 'c' has the type"
    ):
        op.setSelectedCols(["a"]).linkFrom(source, source)
    op.linkFrom(source, source.select("a"))


@pytest.mark.flink
def test_inputs_of_two_environments_are_refused(env: MLEnv, op: TensorFlow2BatchOp) -> None:
    first, second = (
        BatchOperator.fromTable(of.btenv.sql_query("SELECT 1 AS a")) for of in (env, useLocalEnv(1))
    )
    with pytest.raises(
        ConfigurationError, match="TensorFlow2BatchOp: all inputs must belong to one environment"
    ):
        op.linkFrom(first, second)


@pytest.mark.flink
def test_counts_that_leave_no_room_in_the_parallelism_are_refused(
    source: TableSourceBatchOp, op: TensorFlow2BatchOp
) -> None:
    with pytest.raises(
        ConfigurationError, match="numWorkers=2 leaves no room in the parallelism of 1 for numPSs"
    ):
        op.setSelectedCols(["a"]).setNumWorkers(2).linkFrom(source)
    op.setNumWorkers(1).linkFrom(source)


@pytest.mark.flink
def test_missing_files_are_named(source: TableSourceBatchOp, op: TensorFlow2BatchOp) -> None:
    with pytest.raises(
        ConfigurationError, match="TensorFlow2BatchOp: userFiles .*no_such.py': there is no file /"
    ):
        op.setSelectedCols(["a"]).setUserFiles(["/no_such.py"]).linkFrom(source)


@pytest.mark.flink
@pytest.mark.parametrize(
    ("kind", "variable", "other"),
    [
        (TensorFlowBatchOp, "TF115_PYTHON_ENV_PATH", "TF231_PYTHON_ENV_PATH"),
        (TensorFlow2BatchOp, "TF231_PYTHON_ENV_PATH", "TF115_PYTHON_ENV_PATH"),
        (TensorFlowStreamOp, "TF115_PYTHON_ENV_PATH", "TF231_PYTHON_ENV_PATH"),
        (TensorFlow2StreamOp, "TF231_PYTHON_ENV_PATH", "TF115_PYTHON_ENV_PATH"),
    ],
)
def test_python_env_has_a_default_for_each_version_of_tensorflow(
    env: MLEnv,
    files: dict[Any, Any],
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Any],
    variable: str,
    other: str,
) -> None:
    family, table_env = (
        (BatchOperator, env.btenv)
        if issubclass(kind, BatchOperator)
        else (StreamOperator, env.stenv)
    )
    monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(other, "/of/the/other")
    source, op = (
        family.fromTable(table_env.sql_query("SELECT 1 AS a")),
        kind(**files, outputSchemaStr="x INT"),
    )
    monkeypatch.setenv(variable, "/nowhere")
    with pytest.raises(ConfigurationError, match=f"{kind.__name__}: pythonEnv '/nowhere'"):
        source.link(op)
    monkeypatch.delenv(variable)
    source.link(op)


@pytest.mark.parametrize(
    "kind",
    [TensorFlowBatchOp, TensorFlow2BatchOp, TFTableModelTrainBatchOp, TF2TableModelTrainBatchOp],
)
def test_inputs_other_than_operators_are_refused(kind: type[Any]) -> None:
    takes = f"{kind.__name__} takes one BatchOperator and any number of extra inputs"
    for inputs, got in (
        ((), "none"),
        ((BatchOperator(), 1), "BatchOperator, int"),
        ((StreamOperator(),), "StreamOperator"),
    ):
        with pytest.raises(
            ConfigurationError,
            match=f"{takes}, got {got}; BatchOperator.fromTable\\(table\\) wraps",
        ):
            kind().linkFrom(*inputs)


@pytest.fixture
def stream_op(tmp_path: pathlib.Path) -> TensorFlow2StreamOp:
    script = tmp_path / "main.py"
    script.write_text("def main(config): pass\n")
    return TensorFlow2StreamOp(
        userFiles=[], mainScriptFile=str(script), outputSchemaStr="x INT", numWorkers=1, numPSs=0
    )


@pytest.mark.parametrize("kind", [TensorFlowStreamOp, TensorFlow2StreamOp])
def test_inputs_other_than_one_stream_are_refused(kind: type[Any]) -> None:
    two = (StreamOperator(), StreamOperator())
    for inputs, got in (
        ((), "none"),
        ((BatchOperator(),), "BatchOperator"),
        (two, "StreamOperator, StreamOperator"),
    ):
        with pytest.raises(
            ConfigurationError, match=f"{kind.__name__} takes one StreamOperator, got {got}; Stream"
        ):
            kind().linkFrom(*inputs)


@pytest.mark.flink
def test_environment_in_batch_mode_is_refused(env: MLEnv, stream_op: TensorFlow2StreamOp) -> None:
    in_batch_mode = StreamOperator.fromTable(env.btenv.sql_query("SELECT 1 AS id"))
    with pytest.raises(ConfigurationError, match="this environment is in batch mode"):
        in_batch_mode.link(stream_op)


@pytest.mark.flink
def test_the_result_is_a_stream(env: MLEnv, stream_op: TensorFlow2StreamOp) -> None:
    stream = StreamOperator.fromTable(env.stenv.sql_query("SELECT 1 AS id"))
    assert stream.link(stream_op) is stream_op and isinstance(stream_op, StreamOperator)
    assert (stream_op.getColNames(), stream_op.getColTypes()) == (["x"], ["INT"])


@pytest.mark.flink
def test_a_watermark_makes_an_event_time(env: MLEnv, stream_op: TensorFlow2StreamOp) -> None:
    stream_op.setOutputSchemaStr(
        "x INT, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '1' SECOND"
    )
    StreamOperator.fromTable(env.stenv.sql_query("SELECT 1 AS id")).link(stream_op)
    assert stream_op.getColNames() == ["x", "t"] and "ROWTIME" in stream_op.getColTypes()[1]


@pytest.mark.flink
def test_rows_wait_no_longer_than_asked_for(stream_op: TensorFlow2StreamOp) -> None:
    table_env = useLocalEnv(1).stenv
    StreamOperator.fromTable(table_env.sql_query("SELECT 1 AS id")).link(
        stream_op.setChunkWait(0.15)
    )
    assert table_env.get_config().get("python.fn-execution.bundle.time", "") == "150"
