"""The classifier trained by Keras, compared with that of the Estimator where TensorFlow has
both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl import testing
from akdl.storage.model_forms import find_saved_model
from tests.akdl.models.tf.dnn.dnn_rows import FEATURES, PARAMS, accuracy, made_rows

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

OUTPUTS = {
    "all_class_ids",
    "all_classes",
    "class_ids",
    "classes",
    "logistic",
    "logits",
    "probabilities",
}


def trained(
    folder: Path, monkeypatch: pytest.MonkeyPatch, last_with_estimator: tuple[int, int], **task: Any
) -> str:
    from akdl.models.tf.dnn import classifier, dnn_train

    monkeypatch.setattr(classifier, "LAST_WITH_ESTIMATOR", last_with_estimator)
    folder.mkdir(exist_ok=True)
    task_config = testing.train_task_config(*made_rows(), str(folder), PARAMS, **task)
    dnn_train.main(task_config)
    return find_saved_model(task_config.saved_model_dir)


def predicted(tf: Any, model: str) -> tuple[Any, dict[str, Any]]:
    """Return the signature as the file has it, and its outputs for other rows."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    cells = made_rows(300)[0]
    saved = SavedModel.FromString(Path(model, "saved_model.pb").read_bytes())
    signature = saved.meta_graphs[0].signature_def["predict"]
    described = {
        name: (info.dtype, [dimension.size for dimension in info.tensor_shape.dim])
        for tensors in (signature.inputs, signature.outputs)
        for name, info in tensors.items()
    }
    loaded = tf.saved_model.load(model)
    feeds = dict(
        zip(sorted(loaded.signatures["predict"].structured_input_signature[1]), sorted(FEATURES))
    )
    outputs = loaded.signatures["predict"](
        **{given: tf.constant(cells[name], tf.float32, [300, 1]) for given, name in feeds.items()}
    )
    return described, {name: value.numpy() for name, value in outputs.items()}


@pytest.mark.long
def test_keras_exports_what_the_estimator_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    by_keras, values = predicted(tf, trained(tmp_path / "keras", monkeypatch, (0, 0)))
    assert set(values) == OUTPUTS
    np.testing.assert_allclose(values["logistic"], 1 / (1 + np.exp(-values["logits"])), rtol=1e-5)
    np.testing.assert_allclose(values["probabilities"][:, 1:], values["logistic"], rtol=1e-5)
    np.testing.assert_array_equal(values["class_ids"], (values["logits"] > 0).astype(int))
    assert values["classes"][0, 0] == str(values["class_ids"][0, 0]).encode()
    assert values["all_class_ids"][0].tolist() == [0, 1] and values["all_classes"][0].tolist() == [
        b"0",
        b"1",
    ]
    if not hasattr(tf, "estimator"):
        return
    by_estimator, expected = predicted(tf, trained(tmp_path / "estimator", monkeypatch, (2, 15)))
    assert by_keras == by_estimator
    assert {name: value.dtype for name, value in values.items()} == {
        name: value.dtype for name, value in expected.items()
    }
    # Both learn the same boundary, from other initial weights.
    np.testing.assert_array_equal(values["logits"].shape, expected["logits"].shape)
    assert np.mean(values["class_ids"] == expected["class_ids"]) > 0.95


@pytest.mark.long
def test_keras_classifier_resumes_from_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import tensorflow as tf

    folders = {"checkpoint_dir": str(tmp_path / "kept")}
    first = trained(tmp_path / "a", monkeypatch, (0, 0), **folders)
    with caplog.at_level("INFO"):
        again = trained(tmp_path / "b", monkeypatch, (0, 0), **folders)
    assert "nothing is left to train" in caplog.text
    cells = made_rows(300)[0]
    assert accuracy(tf, first, cells, "predict") == accuracy(tf, again, cells, "predict") > 0.9


def test_a_group_without_estimator_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from akdl.models.tf.dnn import classifier
    from akdl.tf_version import EstimatorMissing

    monkeypatch.setattr(classifier, "tf_version", lambda: (2, 99))
    monkeypatch.setattr("akdl.tf_version.tf_version", lambda: (2, 99))
    with pytest.raises(
        EstimatorMissing, match="the DNN classifier of several processes needs tf.estimator"
    ):
        trained(tmp_path, monkeypatch, (2, 15), num_workers=2)
