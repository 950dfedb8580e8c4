"""An `awf_load_model_fn` as it is written for Keras 2 runs with Keras 3; what cannot be loaded says
why.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from akdl.training.user_functions import UserModule
from tests.akdl.keras.support import save, user_module

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def load_with(function: Any, path: str) -> Any:
    from akdl.keras.saving import load_model

    return load_model(UserModule(user_module(awf_load_model_fn=function)), path, "ranker")


def test_load_model_takes_a_saved_model(tmp_path: Path) -> None:
    import tensorflow as tf

    before = tf.keras.models.load_model
    inputs = tf.keras.Input((2,))
    path = save(tf.keras.Model(inputs, tf.keras.layers.Rescaling(3.0)(inputs)), tmp_path / "model")
    loaded = load_with(lambda path, name: tf.keras.models.load_model(path), path)
    np.testing.assert_allclose(loaded(tf.constant([[1.0, 2.0]])), [[3.0, 6.0]])
    assert tf.keras.models.load_model is before, "nothing of Keras stays changed"


def test_a_function_that_fails_is_named(tmp_path: Path) -> None:
    from akdl.storage.model_forms import ModelError
    from akdl.tf_version import is_keras_3

    def fails(path: str, name: str) -> Any:
        raise RuntimeError("no such format")

    message = "awf_load_model_fn in user failed for ranker: RuntimeError: no such format"
    with pytest.raises(ModelError, match=message) as raised:
        load_with(fails, str(tmp_path))
    assert (".keras and .h5" in str(raised.value)) == is_keras_3()
    with pytest.raises(ModelError, match="expected a model for ranker, got None"):
        load_with(lambda path, name: None, str(tmp_path))


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning")
@pytest.mark.parametrize("name", ["model.keras", "model.h5"])
@pytest.mark.fault(
    "scripts", "A model saved as a Keras file is exported with the names of its inputs"
)
def test_a_file_of_keras_is_exported_with_the_names_of_its_inputs(
    tmp_path: Path, name: str
) -> None:
    import tensorflow as tf

    from akdl.keras.saving import export_file
    from akdl.serving.saved_model import SavedModel
    from akdl.storage.model_forms import find_keras_file, find_saved_model
    from akdl.wire import Serving

    inputs = {key: tf.keras.Input([1], name=key) for key in ("width", "height")}
    sums = tf.keras.layers.Add(name="sums")([inputs["width"], inputs["height"]])
    tf.keras.Model(inputs, {"sums": sums}).save(str(tmp_path / name))
    file = find_keras_file(str(tmp_path))
    assert file == str(tmp_path / name)
    folder = export_file(file)
    assert find_saved_model(str(tmp_path)) == folder and find_keras_file(str(tmp_path)) is None
    signature = SavedModel(folder, Serving()).signature
    assert {each.key for each in signature.inputs} == {"width", "height"} and [
        each.key for each in signature.outputs
    ] == ["sums"]


def test_features_in_a_named_tuple_keep_their_places() -> None:
    """They are what a model of Keras 3 that does not know its inputs is exported with."""
    import tensorflow as tf

    from akdl.keras.saving import _specs

    class Features(NamedTuple):
        width: Any
        height: Any

    found = _specs(Features(tf.zeros([2, 1]), tf.zeros([2, 3], tf.int64)))
    assert found == Features(
        tf.TensorSpec([None, 1], tf.float32, "input_1"),
        tf.TensorSpec([None, 3], tf.int64, "input_2"),
    )


def test_export_file_refuses_a_file_without_a_model(tmp_path: Path) -> None:
    from akdl.keras.saving import export_file
    from akdl.storage.model_forms import ModelError

    (tmp_path / "model.keras").write_text("no zip")
    with pytest.raises(
        ModelError,
        match="task_config.saved_model_dir: expected a SavedModel, got model.keras, which cannot be exported",
    ):
        export_file(str(tmp_path / "model.keras"))
