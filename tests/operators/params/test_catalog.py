"""What each parameter accepts, what it keeps, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from bridge.exceptions import ConfigurationError
from operators import (
    TensorFlow2BatchOp,
    TensorFlowBatchOp,
    TF2TableModelTrainBatchOp,
    TFSavedModelPredictStreamOp,
    TFTableModelPredictStreamOp,
)
from operators.params import catalog, data_catalog

SCHEMA = "id LONG, name STRING"

ACCEPTED = [
    ("userFiles", ["a.py", "b"], ["a.py", "b"]),
    ("userFiles", ("a.py",), ["a.py"]),
    ("userFiles", "a.py", ["a.py"]),
    ("userFiles", '["a.py", "b"]', ["a.py", "b"]),
    ("userFile", "a.py", ["a.py"]),
    ("scriptFiles", ["a.py"], ["a.py"]),
    ("mainScriptFile", "a.py", "a.py"),
    ("userParams", '{"a": [1, {"b": null}]}', '{"a": [1, {"b": null}]}'),
    ("userParams", {"a": 1.5}, json.dumps({"a": 1.5})),
    ("outputSchemaStr", SCHEMA, SCHEMA),
    ("schemaStr", SCHEMA, SCHEMA),
    ("schema", SCHEMA, SCHEMA),
    ("tableSchema", SCHEMA, SCHEMA),
    ("selectedCols", ["a", "b"], ["a", "b"]),
    ("selectedColNames", ("a",), ["a"]),
    ("numWorkers", 1, 1),
    ("numWorkers", np.int64(3), 3),
    ("numPSs", 0, 0),
    ("pythonEnv", "", ""),
    ("envVars", ["A", "B_1=x=y", "C="], ["A", "B_1=x=y", "C="]),
    ("intraOpParallelism", 1, 1),
    ("exactDoubles", True, True),
]

REFUSED = [
    ("userFiles", 5, "a path, a list of paths, or such a list as JSON text, got 5 of type int"),
    ("userFiles", ["a.py", None], "a path, a list of paths"),
    ("userFiles", '["a.py"', "a path, a list of paths"),
    ("userFiles", [""], "none of them empty"),
    ("mainScriptFile", " ", "the path of a script, or a function defined with def"),
    ("userParams", "{", "a JSON object"),
    ("userParams", "[1]", "a JSON object"),
    ("userParams", '{"a":' * 100_000, "a JSON object"),
    ("userFiles", "[" * 100_000, "a path, a list of paths"),
    ("userParams", {"a": object()}, "a dict that JSON can hold"),
    ("outputSchemaStr", "", "the schema is empty"),
    ("outputSchemaStr", "id LONGG", "unknown type 'LONGG'"),
    ("outputSchemaStr", "id INT, id INT", "'id' occurs twice"),
    ("selectedCols", "a", "a list of strings"),
    ("selectedCols", [], "one or more different names"),
    ("selectedCols", ["a", "b", "a"], r"\(a more than once\)"),
    ("numWorkers", 0, "a whole number of at least 1, got 0"),
    ("numWorkers", True, "a whole number of at least 1, got True of type bool"),
    ("numWorkers", 2.0, "a whole number of at least 1"),
    ("numWorkers", "2", "a whole number of at least 1, got '2' of type str"),
    (
        "numWorkers",
        (2, 4),
        "one number, as only TF2TableModelTrainBatchOp and TFTableModelTrainBatchOp take a pair, got",
    ),
    ("numPSs", -1, "a whole number of at least 0"),
    ("pythonEnv", 3, "a string"),
    ("MLEnvironmentId", 1, "0, the one environment of a program"),
    ("envVars", "A", "a list of names of variables"),
    (
        "envVars",
        ["A", "B C=secret"],
        "a list of names of variables, or of \"NAME=value\"; 'B C' is not valid$",
    ),
    ("envVars", ["=secret"], "'' is not valid$"),
    (
        "envVars",
        ["TF_CONFIG={}", "AKDL_TOKEN=x", "PATH=/bin"],
        "TF_CONFIG, AKDL_TOKEN, PATH cannot be set",
    ),
    (
        "envVars",
        ["CUDA_VISIBLE_DEVICES=1", "TF_NUM_INTRAOP_THREADS=8", "TF_GRPC_REUSE_PORT"],
        "own value; set gpusPerWorker or gpusPerModel, 0 for no GPU; or AKDL_GPUS on the hosts; set intraOpParallelism$",
    ),
    ("intraOpParallelism", 0, "a whole number of at least 1"),
    ("exactDoubles", 1, "True or False"),
]


@pytest.mark.parametrize(("name", "value", "kept"), ACCEPTED)
@pytest.mark.parametrize("kind", [TensorFlowBatchOp, TensorFlow2BatchOp])
def test_parameters_accept_and_convert_good_values(
    kind: type[Any], name: str, value: Any, kept: list[str] | str | int
) -> None:
    op = kind(**{name: value})
    name = "outputSchemaStr" if name == "schemaStr" else name  # getSchemaStr is that of the table
    got = getattr(op, f"get{name[0].upper()}{name[1:]}")()
    assert got == kept and type(got) is type(kept)


@pytest.mark.parametrize(("name", "value", "message"), REFUSED)
def test_parameters_refuse_wrong_values_by_name(name: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as raised:
        getattr(TensorFlow2BatchOp(), f"set{name[0].upper()}{name[1:]}")(value)
    assert str(raised.value).startswith(f"TensorFlow2BatchOp: parameter {name!r}: ")


def test_script_operators_have_their_defaults() -> None:
    op = TensorFlow2BatchOp()
    assert op.getUserParams() == "{}"
    assert op.getSelectedCols() is None
    assert op.getNumWorkers() is None
    assert op.getNumPSs() is None
    assert op.getPythonEnv() == ""
    assert op.getIntraOpParallelism() == 4
    assert op.getExactDoubles() is False


def test_every_parameter_of_the_reference_is_there() -> None:
    assert {name for param in catalog.SCRIPT for name in param.names} >= {
        "userFiles", "userFile", "scriptFiles", "mainScriptFile", "userParams", "outputSchemaStr", "schemaStr", "schema",
        "tableSchema", "selectedCols", "selectedColNames", "numWorkers", "numPSs", "pythonEnv", "intraOpParallelism",
    }  # fmt: skip


def test_names_of_parameters_are_unique_in_an_operator() -> None:
    for params in (
        catalog.SCRIPT,
        catalog.SAVED_MODEL_PREDICT_STREAM,
        data_catalog.RANDOM_TABLE,
        data_catalog.CSV,
    ):
        names = [name for param in params for name in param.names]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", [TFTableModelPredictStreamOp, TFSavedModelPredictStreamOp])
def test_stream_predictors_have_settings_of_newer_models(kind: type[Any]) -> None:
    op = kind()
    assert (
        op.getModelStreamFilePath(),
        op.getModelStreamScanInterval(),
        op.getModelStreamStartTime(),
    ) == (None, 10.0, None)
    op.setModelStreamFilePath("/models").setModelStreamScanInterval(1).setModelStreamStartTime(
        "2024-05-31 18:00:00.5"
    )
    assert (op.getModelStreamScanInterval(), op.getModelStreamStartTime()) == (
        1.0,
        "2024-05-31 18:00:00.5",
    )
    assert (op.getChunkWait(), op.getChunkRows(), op.getInferBatchSize()) == (0.01, 8000, 256)
    with pytest.raises(
        ConfigurationError,
        match="'modelStreamScanInterval': expected a number of seconds greater than 0",
    ):
        op.setModelStreamScanInterval(0)
    with pytest.raises(
        ConfigurationError, match="a date and time such as \"2024-05-31 18:00:00\", got 'noon'"
    ):
        op.setModelStreamStartTime("noon")


@pytest.mark.parametrize("pair", [(2, 4), [2, 4], (np.int64(2), 4)])
def test_num_workers_may_be_a_pair(pair: object) -> None:
    assert TF2TableModelTrainBatchOp(numWorkers=pair).getNumWorkers() == (2, 4)
    assert TF2TableModelTrainBatchOp(numWorkers=3).getNumWorkers() == 3


@pytest.mark.parametrize("pair", [(4, 2), (0, 2), (1, 2, 3), (1,), (1.0, 2), ("1", "2"), (True, 2)])
def test_wrong_pair_of_workers_is_refused(pair: object) -> None:
    with pytest.raises(
        ConfigurationError,
        match="a whole number of at least 1, or two of them, the smaller one first",
    ):
        TF2TableModelTrainBatchOp(numWorkers=pair)
