"""What a training writes is tried before it begins; what fails afterwards keeps the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from akdl import testing
from tests.akdl.keras.support import user_module, weights_in

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

CONFIG: dict[str, Any] = {"batch_size": 2, "optimizer": "sgd", "loss": "mse"}


def module(**more: Any) -> Any:
    import tensorflow as tf

    def create() -> Any:
        return tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])

    data = tf.data.Dataset.from_tensor_slices((tf.ones([4, 2]), tf.ones([4, 1])))
    return user_module(
        **{"awf_create_model_fn": create, "awf_create_train_dataset_fn": lambda: data, **more}
    )


def train(config: dict[str, Any], user: Any) -> Any:
    from akdl.keras.keras_training import train

    return train({**CONFIG, **config}, user)


def blocking(path: Path, calls: list[Any]) -> Any:
    """Return a module that fills the model's folder when the training ends."""

    def to_save(model: Any) -> Any:
        calls.append(model)
        if len(calls) == 2:
            path.mkdir()
            (path / "other").write_text("")
        return model

    return module(awf_model_to_save_fn=to_save)


def checkpoints(path: Path, **args: Any) -> list[Any]:
    return [{"name": "checkpoint", "args": {"path": str(path), **args}}]


def test_all_targets_are_tried_before_the_training(tmp_path: Path) -> None:
    from akdl.user_code.config_file import ConfigError

    def never() -> Any:
        raise AssertionError("the data was made")

    (tmp_path / "file").write_text("")
    callbacks = [
        *checkpoints(tmp_path / "file" / "c"),
        {"name": "tensorboard", "args": {"log_dir": str(tmp_path / "file")}},
    ]
    config = {"save_path": str(tmp_path / "file" / "model"), "callbacks": callbacks}
    with pytest.raises(ConfigError) as raised:
        train(config, module(awf_create_train_dataset_fn=never))
    starts = [mistake.split(" " + str(tmp_path))[0] for mistake in raised.value.mistakes]
    assert starts == [
        "save_path: the model cannot be saved to",
        "callbacks: checkpoints cannot be written to",
        "callbacks: logs cannot be written to",
    ]


def test_resume_false_beside_checkpoints_is_refused(tmp_path: Path) -> None:
    train({"callbacks": checkpoints(tmp_path, resume=False)}, module())
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ValueError, match="resume false: .* holds checkpoints of another training"):
        train({"callbacks": checkpoints(tmp_path, resume=False)}, module())
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_model_that_cannot_be_saved_is_kept(tmp_path: Path) -> None:
    """The folder was free when the training began, and is not any more when it ends."""
    import numpy as np

    from akdl.keras.keras_training import SaveError

    path = tmp_path / "model"
    calls: list[Any] = []
    with pytest.raises(
        SaveError, match=f"could not be saved to {path}: OSError.* Its checkpoint is {path}.kept/"
    ):
        train({"save_path": str(path)}, blocking(path, calls))
    for kept, trained in zip(weights_in(Path(f"{path}.kept")), calls[0].get_weights()):
        np.testing.assert_array_equal(kept, trained)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (None, "It is lost, because this operator has no checkpointDir: set one"),
        ("memory://keras-targets/checkpoints", "in memory://keras-targets/checkpoints: .* run the"),
    ],
)
def test_an_operator_does_not_name_a_checkpoint_in_its_work_folder(
    tmp_path: Path, address: str | None, message: str
) -> None:
    from akdl.keras import operator
    from akdl.keras.keras_training import SaveError

    if address is not None:
        pytest.importorskip("fsspec")
    task_config = testing.train_task_config(
        {"x": [1.0]}, {"x": "DOUBLE"}, str(tmp_path), checkpoint_dir=address
    )
    user = blocking(Path(task_config.saved_model_dir), [])
    with pytest.raises(SaveError, match=message):
        operator.main(task_config, user, CONFIG)


def test_a_wrong_model_to_save_is_found_before_the_training(tmp_path: Path) -> None:
    import tensorflow as tf

    class Never(tf.keras.callbacks.Callback):
        def on_train_begin(self, logs: Any = None) -> None:
            raise AssertionError("the training began")

    user = module(awf_model_to_save_fn=lambda model: None, Never=Never)
    with pytest.raises(
        ValueError, match="awf_model_to_save_fn in user: expected a tf.keras.Model, got NoneType"
    ):
        train({"save_path": str(tmp_path / "model"), "callbacks": ["Never"]}, user)


def test_output_of_an_evaluation_is_tried_before_it_runs(tmp_path: Path) -> None:
    from akdl.keras.evaluate import evaluate

    (tmp_path / "file").write_text("")
    config = {
        "models": [{"name": "m", "path": "nowhere"}],
        "batch_size": 2,
        "metrics": ["AUC"],
        "output": {"json": str(tmp_path / "file" / "r.json")},
    }
    with pytest.raises(ValueError, match="output.json: .* cannot be written"):
        evaluate(
            json.loads(json.dumps(config)), user_module(awf_create_test_dataset_fn=lambda: None)
        )
