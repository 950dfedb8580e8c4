"""Checks before a training, each with the functions of a linear model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from akdl.estimator.four_functions import Functions
from akdl.user_code.config_file import ConfigError
from akdl.user_code.module import UserModuleError
from tests.akdl.estimator.support import linear_module

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning"
    ),
]


def with_heads(make: Any) -> Any:
    """Return functions whose model, in mode PREDICT, has the heads `make(export, y)`."""
    import tensorflow.compat.v1 as tf

    whole = linear_module()

    def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
        spec = whole.model_fn(features, labels, mode, params)
        heads = (
            make(tf.estimator.export, spec.predictions["y"])
            if mode == tf.estimator.ModeKeys.PREDICT
            else None
        )
        return spec._replace(export_outputs=heads) if heads else spec

    return linear_module(model_fn=model_fn)


def export_of(module: Any) -> tuple[Any, list[str]]:
    from akdl.engine.run_config import generate_run_config
    from akdl.estimator.dry_run import try_export

    lines: list[str] = []
    return try_export(Functions(module, "", {}), generate_run_config(), lines.append), lines


def test_the_export_reads_these_variables() -> None:
    serving, lines = export_of(linear_module())
    assert serving == ({"global_step": [], "weight": [], "bias": []}, False) and lines == []


def test_predict_stands_for_a_default_that_takes_examples() -> None:
    serving, lines = export_of(
        with_heads(
            lambda export, y: {
                "serving_default": export.RegressionOutput(y),
                "predict": export.PredictOutput(y),
            }
        )
    )
    assert serving.predict_is_default
    assert lines == [
        "the export has the head 'predict' as 'serving_default': its type is float32 instead of string"
    ]


def test_a_default_that_takes_examples_alone_is_refused() -> None:
    with pytest.raises(
        UserModuleError,
        match=r"its head 'serving_default' is a RegressionOutput, .* takes x \(its type is",
    ):
        export_of(with_heads(lambda export, y: {"serving_default": export.RegressionOutput(y)}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda tf: tf.data.Dataset.range(0).map(lambda n: ({"x": [0.0]}, [0.0])),
            "eval_input_fn in .* gives no batch",
        ),
        (
            lambda tf: ({"z": tf.constant([0.0])}, tf.constant([0.0])),
            "model_fn in .* failed in mode eval: KeyError: 'x'",
        ),
        (lambda tf: tf.data.Dataset.from_tensors(({"x": [0.0]}, [0.0])), None),
        (lambda tf: ({"x": tf.constant([0.0])}, tf.constant([0.0])), None),
    ],
)
def test_the_evaluation_reads_a_batch(make: Any, message: str | None) -> None:
    import tensorflow as tf

    from akdl.engine.run_config import generate_run_config
    from akdl.estimator.dry_run import try_evaluation

    functions = Functions(linear_module(), "", {})
    if message is None:
        try_evaluation(functions, lambda: make(tf), generate_run_config())
        return
    with pytest.raises(UserModuleError, match=message):
        try_evaluation(functions, lambda: make(tf), generate_run_config())


def test_try_folders_names_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    from akdl.estimator.dry_run import try_folders

    (tmp_path / "file").touch()
    try_folders({"the model dir": str(tmp_path / "new")})
    with pytest.raises(ConfigError) as caught:
        try_folders(
            {"the model dir": str(tmp_path / "new"), "the export dir": str(tmp_path / "file" / "x")}
        )
    (mistake,) = caught.value.mistakes
    assert mistake.startswith(f"the export dir: cannot write into {tmp_path}/file/x: ")


def test_partitioned_variables_are_saved_as_a_whole() -> None:
    import tensorflow.compat.v1 as tf

    from akdl.estimator.dry_run import variables_in_checkpoint

    with tf.Graph().as_default():
        tf.get_variable("parts", [4], partitioner=tf.fixed_size_partitioner(2))
        tf.get_variable("whole", [2, 3])
        assert variables_in_checkpoint() == {"parts": None, "whole": [2, 3]}
