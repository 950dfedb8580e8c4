"""Calls of a loaded model, eagerly and in a session: the numbers are those of TensorFlow itself."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl.serving.model import ServedModel
from akdl.storage.model_archive import ModelError
from tests.akdl.serving import models
from tests.akdl.serving.models import expected
from tests.akdl.test_imports import in_fresh_interpreter

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def key_of(make: Any) -> str:
    return "predict" if make is models.estimator else "serving_default"


@pytest.mark.parametrize("make", models.ALL)
def test_every_kind_of_model_same_numbers(make: Any) -> None:
    columns, folder = models.rows(50), make()
    theirs = expected(folder, columns, key_of(make))
    with ServedModel(folder, signature=key_of(make)) as model:
        ours = model.predict(columns)
    assert set(ours) == set(theirs) >= {"logits"}
    for name, values in theirs.items():
        np.testing.assert_array_equal(ours[name], values)


@pytest.mark.parametrize("make", models.ALL)
def test_every_kind_of_model_same_numbers_in_a_session(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("akdl.serving.runners.runs_eagerly", lambda: False)
    columns, folder = models.rows(50), make()
    with ServedModel(folder, signature=key_of(make), outputs=["logits"]) as model:
        assert type(model._runner.model).__name__ == "Session"
        ours = model.predict(columns)["logits"]
    np.testing.assert_allclose(ours, expected(folder, columns, key_of(make))["logits"], rtol=1e-6)


def test_inputs_and_outputs_keep_their_names_in_a_direct_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    def predict(last: Any, first: Any, text: Any) -> dict[str, Any]:
        return {"z": last - first, "B": tf.strings.length(text), "a": first, "again": first}

    kinds = {"z": tf.float32, "B": tf.float32, "a": tf.string}
    signature = tf.function(predict, input_signature=[tf.TensorSpec([None], kind, name) for name, kind in kinds.items()])
    tf.saved_model.save(tf.Module(), str(tmp_path), {"serving_default": signature})
    columns = {"a": [b"x", b"yyy"], "z": np.array([1, 2], "f4"), "B": np.array([10, 20], "f4")}
    for qualname in ("_direct_call.<locals>.call", "_load_function.<locals>.call"):
        with ServedModel(str(tmp_path), inputs=list(columns), outputs=["z", "a", "B", "again"]) as model:
            assert model._runner._call.__qualname__ == qualname
            found = model.predict(columns)
        assert {key: values.tolist() for key, values in found.items()} == {
            "z": [-9, -18], "a": [10, 20], "B": [1, 3], "again": [10, 20],
        }  # fmt: skip
        monkeypatch.setattr("akdl.serving.runners._direct_call", lambda *_: None)


def test_an_output_that_is_the_shape_of_another_tensor_beside_inputs_of_one_number(tmp_path: Path) -> None:
    import tensorflow as tf

    def predict(x: Any, by: Any, text: Any) -> dict[str, Any]:
        return {"y": x * by, "size": tf.shape(x), "text": text}

    kinds = {"x": ([None, 2], tf.float32), "by": ([], tf.float32), "text": ([], tf.string)}
    signature = tf.function(predict, input_signature=[tf.TensorSpec(*kind, name) for name, kind in kinds.items()])
    tf.saved_model.save(tf.Module(), str(tmp_path), {"serving_default": signature})
    with ServedModel(str(tmp_path), cells_hold_batches=True) as model:
        found = model.predict({"x": [[[1, 2], [3, 4]]], "by": [10], "text": ["a"]})
    assert {key: values[0].tolist() for key, values in found.items() if key != "text"} == {
        "y": [[10, 20], [30, 40]],
        "size": [2, 2],
    }
    assert found["text"][0] == b"a"


@pytest.mark.parametrize("name", ["run[1]", "run*?", "run\\1"])
@pytest.mark.parametrize("eagerly", [True, False])
def test_folders_that_tensorflow_takes_for_a_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, eagerly: bool
) -> None:
    monkeypatch.setattr("akdl.serving.runners.runs_eagerly", lambda: eagerly)
    columns, folder = models.rows(5), models.keras_functional()
    shutil.copytree(folder, tmp_path / name)
    with ServedModel(str(tmp_path / name)) as model, ServedModel(folder) as same:
        ours, theirs = model.predict(columns), same.predict(columns)
        for key, values in theirs.items():
            np.testing.assert_array_equal(ours[key], values)


def test_what_the_model_has_not_variables_are_missing(tmp_path: Any) -> None:
    shutil.copy(models.module() + "/saved_model.pb", tmp_path)
    with pytest.raises(ModelError, match="cannot be loaded"):
        ServedModel(str(tmp_path))


def test_intra_op_parallelism_is_applied() -> None:
    code = (
        "import tensorflow as tf; from akdl.serving.model import ServedModel\n"
        f"ServedModel({models.module()!r}, intra_op_parallelism=3)\n"
        "print(tf.config.threading.get_intra_op_parallelism_threads())"
    )
    assert in_fresh_interpreter(code) == "3"


def test_intra_op_parallelism_that_comes_too_late_is_told(caplog: pytest.LogCaptureFixture) -> None:
    models.module()
    ServedModel(models.module(), intra_op_parallelism=3).predict(models.rows(1))
    assert "intraOpParallelism 3 has no effect" in caplog.text
