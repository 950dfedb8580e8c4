"""Parameters of a predictor become the settings of its process."""

from __future__ import annotations

from typing import Any

import pytest

from akdl.wire import Serving
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators.params.accessors import SavedModelPredictStreamParams
from operators.params.prediction_settings import (
    columns_of_result,
    fed_columns,
    predicted_schema,
    serving_of,
)


def params(**values: Any) -> SavedModelPredictStreamParams:
    return SavedModelPredictStreamParams(
        **{"modelPath": "/model", "outputSchemaStr": "y DOUBLE", **values}
    )  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("reserved", "outputs", "wanted"),
    [
        (["a", "b", "c"], ["y"], [("a", False), ("b", False), ("c", False), ("y", True)]),
        (["c", "a"], ["y", "z"], [("a", False), ("c", False), ("y", True), ("z", True)]),
        ([], ["y"], [("y", True)]),
        (None, ["z", "b"], [("a", False), ("b", True), ("c", False), ("z", True)]),
        (["a"], ["b", "z"], [("a", False), ("b", True), ("z", True)]),
    ],
)
def test_outputs_follow_the_columns_that_stay(
    reserved: Any, outputs: list[str], wanted: list[tuple[str, bool]]
) -> None:
    assert columns_of_result(params(reservedCols=reserved), ["a", "b", "c"], outputs) == wanted


def test_parameters_of_the_model_are_copied_under_their_names() -> None:
    own = params(
        inferBatchSize=7, inputSignatureDefs=["a"], defaults={"x": 1}, cellsHoldBatches=True, candidatePath="/c", modelCol="m"
    )  # fmt: skip
    serving = serving_of(own, Schema.parse("x FLOAT"))
    assert (serving.infer_batch_size, serving.infer_batch_bytes, serving.input_signature_defs) == (
        7,
        64 << 20,
        ["a"],
    )
    assert (serving.defaults, serving.cells_hold_batches, serving.candidate_share) == (
        '{"x": 1}',
        True,
        0.1,
    )
    assert (serving.graph_def_tag, serving.signature_def_key, serving.intra_op_parallelism) == (
        "serve",
        "serving_default",
        0,
    )
    assert predicted_schema(serving).names == ["y", "shadow_y", "m"]


@pytest.mark.parametrize(
    ("path", "others", "watched"),
    [
        ("models:/churn@prod", {}, "models:/churn@prod"),
        ("models:/churn@prod", {"candidatePath": "models:/churn@next"}, ""),
        ("models:/churn@prod", {"inferProcesses": 2}, ""),
        ("models:/churn/3", {}, ""),
    ],
)
def test_a_stream_follows_an_alias_that_is_its_only_model(
    path: str, others: dict[str, object], watched: str
) -> None:
    serving = serving_of(params(modelPath=path, **others), Schema.parse("x FLOAT"))
    assert serving.model_stream_file_path == watched


def test_each_setting_but_the_first_ones_is_a_parameter() -> None:
    known = {param.name for param in SavedModelPredictStreamParams.params}
    fields = [
        field
        for field in Serving.DESCRIPTOR.fields
        if field.number >= 10 and field.name != "user_params"
    ]
    assert [field.name for field in fields if field.camelcase_name not in known] == []


def test_column_of_keys_feeds_no_model() -> None:
    keyed = params(modelKeyCol="k", inputSignatureDefs=["a", "b"])
    assert fed_columns(keyed, ["x", "k", "z"]) == ["x", "z", "k"]
    assert serving_of(keyed, Schema.parse("x FLOAT, z FLOAT, k STRING")).model_key_col == "k"
    with pytest.raises(
        ConfigurationError,
        match="modelKeyCol: expected a column of integers or texts, got 'k', FLOAT",
    ):
        serving_of(keyed, Schema.parse("x FLOAT, z FLOAT, k FLOAT"))
