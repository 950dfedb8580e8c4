"""Names of columns that no SavedModel can have for its inputs: what we say is what
TensorFlow does.
"""

from __future__ import annotations

import json
import logging
import subprocess
from pathlib import Path

import pytest

from akdl.tf_version import is_keras_3
from operators.prepare.input_names import odd_names, warn_of_names
from tests.support.deadline import DEADLINE_S
from tests.support.tensorflows import NEWEST

ODD = [
    ["class"],
    ["None"],
    ["self"],
    ["a b"],
    ["_x"],
    ["é"],
    ["a:b"],
    ["1x"],
    ["a-b"],
    ["a.b"],
    ["a-b", "a_b"],
    ["A", "a"],
]
GOOD = [["x"], ["A"], ["training"], ["args", "kwargs"], ["x1", "x_1"], ["Klass", "inputs"]]
BY_KERAS_3 = """
import json, sys, keras, tensorflow as tf
for number, names in enumerate(json.loads(sys.argv[1])):
    inputs = {name: keras.Input([1], name=name) for name in names}
    joined = keras.layers.Concatenate()(list(inputs.values())) if len(names) > 1 else inputs[names[0]]
    model, folder = keras.Model(inputs, keras.layers.Dense(1)(joined)), f"model-{number}"
    try:
        model.export(folder, verbose=False)
        served = sorted(tf.saved_model.load(folder).signatures["serving_default"].structured_input_signature[1])
    except (ValueError, TypeError):
        served = []
    print("SERVED", json.dumps(served), flush=True)
"""


@pytest.mark.parametrize("names", ODD, ids=" ".join)
def test_names_that_keras_changes_are_found(names: list[str]) -> None:
    assert odd_names(names)


@pytest.mark.parametrize("names", GOOD, ids=" ".join)
def test_names_that_keras_keeps_are_not_found(names: list[str]) -> None:
    assert odd_names(names) == {}


def test_changed_names_of_inputs_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        warn_of_names("Op", ["age", "class"])
    assert "Op: a SavedModel of Keras cannot have inputs" in caplog.text
    assert (
        "'class' is a keyword of Python" in caplog.text and "`class` AS other_name" in caplog.text
    )


@pytest.mark.tf
@pytest.mark.parametrize("names", [*ODD, *GOOD], ids=" ".join)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_tensorflow_keeps_exactly_the_good_names(tmp_path: Path, names: list[str]) -> None:
    import tensorflow as tf

    if is_keras_3():
        pytest.skip("Keras 3 has a test of its own below")
    inputs = {name: tf.keras.Input([], name=name) for name in names}
    try:
        model = tf.keras.Model(
            inputs, tf.keras.layers.Dense(1)(tf.stack(list(inputs.values()), axis=1))
        )
        tf.saved_model.save(model, str(tmp_path / "model"))
        loaded = tf.saved_model.load(str(tmp_path / "model"))
        served = set(loaded.signatures["serving_default"].structured_input_signature[1])
    except (ValueError, TypeError):
        served = set()
    assert (served == set(names)) is (not odd_names(names))


@pytest.mark.tf
@pytest.mark.slow
def test_keras_3_keeps_exactly_the_good_names(tmp_path: Path) -> None:
    given = [*ODD, *GOOD]
    command = [NEWEST.python(), "-c", BY_KERAS_3, json.dumps(given)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=10 * DEADLINE_S
    )
    served = [
        json.loads(line.split(" ", 1)[1])
        for line in done.stdout.splitlines()
        if line.startswith("SERVED ")
    ]
    assert len(served) == len(given), done.stderr[-5000:]
    for names, found in zip(given, served):
        assert (found == sorted(names)) is (not odd_names(names)), (names, found)
