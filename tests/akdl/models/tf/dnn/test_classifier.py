"""Parameters and cells that the DNN classifier refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from akdl import testing
from tests.akdl.models.tf.dnn.dnn_rows import PARAMS, made_rows

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (
            {"labelCol": None},
            "missing are 'labelCol'. The columns are 'a' .DOUBLE., 'b c' .FLOAT NOT NULL.",
        ),
        (
            {"labelCol": "lable"},
            "featureCols, labelCol: expected some of 'a' .DOUBLE., .*, got 'lable'",
        ),
        ({"featureCols": '["a", "z"]'}, "expected some of 'a' .*, got 'z'"),
        ({"featureCols": "a, z"}, "list of column names or its JSON text, got 'a, z'"),
        ({"featureCols": []}, "list of column names"),
        ({"featureCols": ["id"]}, r"expected numbers .*, got 'id' \(STRING\): CAST"),
        ({"batch_size": "many"}, "batch_size: expected a whole number of at least 1, got 'many'"),
        ({"num_epochs": 0}, "num_epochs: expected a whole number of at least 1, got 0"),
    ],
)
def test_classifier_refuses_wrong_parameters(
    tmp_path: Path, changes: dict[str, Any], match: str
) -> None:
    from akdl.models.tf.dnn import dnn_train

    params = {name: value for name, value in {**PARAMS, **changes}.items() if value is not None}
    cells, types = made_rows(10)
    with pytest.raises(ValueError, match=match):
        dnn_train.main(testing.train_task_config(cells, types, str(tmp_path), params))


def test_classifier_refuses_to_train_without_rows(tmp_path: Path) -> None:
    from akdl.models.tf.dnn import dnn_train

    task_config = testing.train_task_config([], made_rows()[1], str(tmp_path), PARAMS)
    with pytest.raises(ValueError, match="chief 0 got no rows to train on"):
        dnn_train.main(task_config)


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("label", 0.5, "is not 0 or 1"),
        ("label", 2.0, "n_classes|[Ll]abels must"),
        ("a", None, "column 'a': expected a value, got null"),
    ],
)
def test_classifier_refuses_wrong_cells(tmp_path: Path, name: str, value: Any, match: str) -> None:
    import tensorflow as tf

    from akdl.models.tf.dnn import dnn_train

    cells, types = made_rows(10)
    cells[name] = [value, *cells[name][1:]]
    task_config = testing.train_task_config(cells, types, str(tmp_path), PARAMS)
    with pytest.raises(tf.errors.InvalidArgumentError, match=match):
        dnn_train.main(task_config)
