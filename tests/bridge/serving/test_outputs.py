"""Outputs of a model next to its rows. Jobs that predict are in test_prediction.py and
tests/e2e.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from akdl.wire import BadRow, Prediction, Rows
from bridge.codec.to_arrow import ColumnDecoder
from bridge.codec.to_columns import to_columns
from bridge.exceptions import BridgeError, RowError
from bridge.schema import Schema
from bridge.serving.model_process import ModelSettings
from bridge.serving.outputs import PredictionSettings, with_outputs

OUTPUTS = Schema.parse("y BIGINT")
BATCH = pa.record_batch([pa.array([1.0, 2.0], pa.float32())], names=["x"])


def joined(bad: str | None = None, rows: int = 2, **settings: Any) -> dict[str, list[Any]]:
    cells = pa.record_batch([pa.array(range(rows), pa.int64())], names=["y"])
    prediction = Prediction(rows=Rows.FromString(to_columns(cells, OUTPUTS)))
    if bad is not None:
        prediction.bad_rows.append(BadRow(row=1, message=bad))
    process = ModelSettings("TestOp", "group", "{}", "secret")
    made = PredictionSettings(
        process, "/model", Schema.parse("x FLOAT"), OUTPUTS, (("y", True),), **settings
    )
    found: dict[str, list[Any]] = with_outputs(
        BATCH, prediction, ColumnDecoder(OUTPUTS, "it"), made
    ).to_pydict()
    return found


def test_outputs_follow_the_columns_of_rows() -> None:
    assert joined() == {"x": [1.0, 2.0], "y": [0, 1]}
    assert joined("broken", error_column="why") == {
        "x": [1.0, 2.0],
        "why": [None, "broken"],
        "y": [0, 1],
    }


def test_errors_of_predictions_name_row_and_remedy() -> None:
    with pytest.raises(
        RowError, match="TestOp: row 1 of a batch cannot be predicted: broken. Set errorCol"
    ):
        joined("broken")
    with pytest.raises(RowError, match="got null. Replace nulls with defaults"):
        joined("got null")
    with pytest.raises(BridgeError, match="other rows than the 2 that it received"):
        joined(rows=3)


def test_outputs_load_neither_pyflink_nor_beam() -> None:
    found = (
        "import bridge.serving.outputs, sys; print({'pyflink', 'apache_beam'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", found], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
