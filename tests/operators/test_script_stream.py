"""Script operators of streams: what they take, and what they ask of the environment. Their jobs run in tests/e2e."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from operators import BatchOperator, MLEnv, StreamOperator, TensorFlow2StreamOp, TensorFlowStreamOp, useLocalEnv


@pytest.fixture
def op(tmp_path: pathlib.Path) -> TensorFlow2StreamOp:
    script = tmp_path / "main.py"
    script.write_text("def main(config): pass\n")
    return TensorFlow2StreamOp(userFiles=[], mainScriptFile=str(script), outputSchemaStr="x INT", numWorkers=1, numPSs=0)


@pytest.mark.parametrize("kind", [TensorFlowStreamOp, TensorFlow2StreamOp])
def test_the_input_is_one_stream(kind: type[Any]) -> None:
    two = (StreamOperator(), StreamOperator())
    for inputs, got in (((), "none"), ((BatchOperator(),), "BatchOperator"), (two, "StreamOperator, StreamOperator")):
        with pytest.raises(ConfigurationError, match=f"{kind.__name__} takes one input, a StreamOperator, got {got}; Stream"):
            kind().linkFrom(*inputs)


@pytest.mark.flink
def test_an_environment_in_batch_mode(env: MLEnv, op: TensorFlow2StreamOp) -> None:
    in_batch_mode = StreamOperator.fromTable(env.btenv.sql_query("SELECT 1 AS id"))
    with pytest.raises(ConfigurationError, match="this environment is in batch mode"):
        in_batch_mode.link(op)


@pytest.mark.flink
def test_the_result_is_a_stream(env: MLEnv, op: TensorFlow2StreamOp) -> None:
    stream = StreamOperator.fromTable(env.stenv.sql_query("SELECT 1 AS id"))
    assert stream.link(op) is op and isinstance(op, StreamOperator)
    assert (op.getColNames(), op.getColTypes()) == (["x"], ["INT"])


@pytest.mark.flink
def test_a_watermark_makes_an_event_time(env: MLEnv, op: TensorFlow2StreamOp) -> None:
    op.setOutputSchemaStr("x INT, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '1' SECOND")
    StreamOperator.fromTable(env.stenv.sql_query("SELECT 1 AS id")).link(op)
    assert op.getColNames() == ["x", "t"] and "ROWTIME" in op.getColTypes()[1]


@pytest.mark.flink
def test_rows_wait_no_longer_than_asked_for(op: TensorFlow2StreamOp) -> None:
    table_env = useLocalEnv(1).stenv
    StreamOperator.fromTable(table_env.sql_query("SELECT 1 AS id")).link(op.setChunkWait(0.15))
    assert table_env.get_config().get("python.fn-execution.bundle.time", "") == "150"
