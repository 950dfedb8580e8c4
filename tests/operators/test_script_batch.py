"""Script operators: what linking checks before anything runs. Their jobs run in tests/e2e."""

from __future__ import annotations

import pytest

from bridge.exceptions import ConfigurationError, SchemaError
from operators import BatchOperator, TensorFlow2BatchOp, TensorFlowBatchOp, resetEnv, useLocalEnv


@pytest.fixture(scope="module")
def source():
    table_env = useLocalEnv(1).btenv
    yield BatchOperator.fromTable(table_env.sql_query("SELECT 1 AS a, 'x' AS b, INTERVAL '1' DAY AS c"))
    resetEnv()


@pytest.fixture
def op(tmp_path):
    script = tmp_path / "main.py"
    script.write_text("def main(config): pass\n")
    return TensorFlow2BatchOp(userFiles=[str(script)], mainScriptFile=str(script), outputSchemaStr="x INT, y ARRAY<STRING>")


def test_all_missing_parameters_are_named():
    with pytest.raises(ConfigurationError) as raised:
        TensorFlowBatchOp().linkFrom(BatchOperator())
    assert str(raised.value) == (
        "TensorFlowBatchOp: set 'userFiles', 'mainScriptFile', 'outputSchemaStr' before it is linked or run"
    )


def test_inputs_are_operators(op):
    with pytest.raises(
        ConfigurationError, match="takes one input and any number of extra inputs, each a BatchOperator, got none"
    ):
        op.linkFrom()
    with pytest.raises(ConfigurationError, match="got BatchOperator, int"):
        op.linkFrom(BatchOperator(), 1)
    with pytest.raises(ConfigurationError, match="got dict; BatchOperator.fromTable makes one of a table"):
        op.linkFrom({})


@pytest.mark.flink
def test_the_output_has_the_schema_that_was_asked_for(source, op):
    assert source.link(op.setSelectedCols(["b", "a"])) is op
    assert op.getColNames() == ["x", "y"]
    assert op.getColTypes() == ["INT", "ARRAY<STRING>"]
    with pytest.raises(ConfigurationError, match="'numWorkers' is set too late"):
        op.setNumWorkers(2)


@pytest.mark.flink
def test_columns_that_do_not_exist(source, op):
    with pytest.raises(ConfigurationError, match="'selectedCols' names 'd', 'e'; the input has 'a', 'b', 'c'"):
        op.setSelectedCols(["a", "d", "e"]).linkFrom(source)


@pytest.mark.flink
def test_a_column_that_no_script_can_get(source, op):
    with pytest.raises(SchemaError, match="TensorFlow2BatchOp: the column 'c' has the type"):
        op.linkFrom(source)


@pytest.mark.flink
def test_counts_that_do_not_fit(source, op):
    with pytest.raises(ConfigurationError, match="numWorkers=2 leaves no room in the parallelism of 1 for numPSs"):
        op.setSelectedCols(["a"]).setNumWorkers(2).linkFrom(source)
    op.setNumWorkers(1).linkFrom(source)
