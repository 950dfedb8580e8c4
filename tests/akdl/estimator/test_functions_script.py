"""The four functions as script of an operator, on rows of a table, without Flink."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl import testing
from akdl.estimator import functions_script
from akdl.storage.model_archive import unpack
from akdl.storage.model_forms import find_saved_model
from akdl.user_code.config_file import ConfigError
from tests.akdl.estimator.support import QUIET, linear_module, signature

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning"
    ),
]
TYPES = {"x": "FLOAT", "label": "FLOAT"}
X = np.linspace(-1, 1, 40)
TABLE = {"x": X, "label": -X + 0.5}
PARAMS = {**QUIET, "train_max_steps": 100, "rate": 0.2}


def table_module(seen: list[Any]) -> Any:
    """Return functions that learn the label of the rows at `path`."""
    import tensorflow.compat.v1 as tf

    def dataset(path: str, params: dict[str, Any]) -> Any:
        seen.append((path, params))
        spec = {name: tf.FixedLenFeature([], tf.float32) for name in TYPES}

        def parse(rows: Any) -> Any:
            features = tf.parse_example(rows, spec)
            return features, features.pop("label")

        return tf.data.TFRecordDataset(path).repeat().batch(20).map(parse)

    return linear_module(train_input_fn=dataset, eval_input_fn=dataset)


def predicted(folder: str) -> Any:
    import tensorflow as tf

    return signature(find_saved_model(folder))(x=tf.constant(X, tf.float32))["y"].numpy()


def test_a_train_operator_gets_the_saved_model(tmp_path: Path) -> None:
    seen: list[Any] = []
    (tmp_path / "parameters.json").write_text(json.dumps({**PARAMS, "rate": 9.0, "own": [1]}))
    given = {"rate": 0.2, "ALINK:bc_1": "text"}
    task_config = testing.train_task_config(TABLE, TYPES, str(tmp_path), given)
    functions_script.main(task_config, table_module(seen))
    np.testing.assert_allclose(predicted(task_config.saved_model_dir), TABLE["label"], atol=0.05)
    for path, params in seen:
        assert path == task_config.dataset_file
        assert params == {
            **params,
            "rate": 0.2,
            "own": [1],
            "ALINK:bc_1": "text",
            "train_max_steps": 100,
        }


def test_a_batch_operator_gets_the_model_as_rows_and_a_path_of_its_own(tmp_path: Path) -> None:
    module = linear_module()
    given = {
        **PARAMS,
        "batches": None,
        "path": "/some/where",
        "model_dir": str(tmp_path / "kept"),
        "runner": "estimator",
    }
    task_config = testing.batch_task_config({"x": [], "label": []}, TYPES, str(tmp_path), given)
    functions_script.main(task_config, module)
    rows = [(row["model_id"], row["model_info"]) for row in task_config.output_writer.rows]  # type: ignore[attr-defined]
    np.testing.assert_allclose(predicted(unpack(rows, str(tmp_path / "m"))), 2 * X + 1, atol=0.05)
    assert {path for path, _ in module.calls} == {"/some/where"}
    assert "path" not in module.calls[0][1] and "runner" not in module.calls[0][1]
    assert (tmp_path / "kept" / "checkpoint").exists()


def test_training_without_rows_is_refused(tmp_path: Path) -> None:
    task_config = testing.train_task_config({"x": [], "label": []}, TYPES, str(tmp_path), PARAMS)
    with pytest.raises(
        ValueError, match="chief 0 got no rows to train on: feed more rows or set fewer workers"
    ):
        functions_script.main(task_config, linear_module())


def test_wrong_parameters_are_refused_before_the_rows_arrive(tmp_path: Path) -> None:
    task_config = testing.train_task_config(
        {"x": [], "label": []}, TYPES, str(tmp_path), {"eval_steps": "5"}
    )
    with pytest.raises(
        ConfigError,
        match='eval_steps: expected a whole number of 1 or more, or null for all batches, got "5"',
    ):
        functions_script.main(task_config, linear_module())


def test_checkpoint_dir_of_the_operator_is_used_and_resumed_from(tmp_path: Path) -> None:
    """Checkpoints lie there without a word in the parameters, and the next job goes on; it reports
    by itself.
    """
    given = {**PARAMS, "train_max_steps": 40}
    for name, steps in (("first", 40), ("second", 60)):
        (tmp_path / name).mkdir()
        params = {**given, "train_max_steps": steps}
        task_config = testing.train_task_config(
            TABLE, TYPES, str(tmp_path / name), params, checkpoint_dir=str(tmp_path / "kept")
        )
        functions_script.main(task_config, table_module([]))
        latest = task_config.reports.latest()
        assert latest.step == steps and "loss" in latest.metrics
    assert (tmp_path / "kept" / "model.ckpt-40.index").exists() and (
        tmp_path / "kept" / "model.ckpt-60.index"
    ).exists()
