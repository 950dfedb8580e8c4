"""Script operators of bounded tables: what they take. What linking does is in test_script.py, their jobs in tests/e2e."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from operators import (
    BatchOperator,
    StreamOperator,
    TensorFlow2BatchOp,
    TensorFlowBatchOp,
    TF2TableModelTrainBatchOp,
    TFTableModelTrainBatchOp,
)


@pytest.mark.parametrize("kind", [TensorFlowBatchOp, TensorFlow2BatchOp, TFTableModelTrainBatchOp, TF2TableModelTrainBatchOp])
def test_inputs_are_operators(kind: type[Any]) -> None:
    takes = f"{kind.__name__} takes one input and any number of extra inputs, each a BatchOperator"
    for inputs, got in (((), "none"), ((BatchOperator(), 1), "BatchOperator, int"), ((StreamOperator(),), "StreamOperator")):
        with pytest.raises(ConfigurationError, match=f"{takes}, got {got}; BatchOperator.fromTable makes one of a table"):
            kind().linkFrom(*inputs)
