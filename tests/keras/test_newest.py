"""What other files test with Keras 2, once more with Keras 3, on the newest TensorFlow: a telling part of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.keras.keras_2_models import FOLDER, make
from tests.keras.support import ENVIRONMENT
from tests.support.tensorflows import NEWEST, pytest_for
from tests.support.tf_group import ROOT

pytestmark = [pytest.mark.tf, pytest.mark.slow]

TRAINING = [
    "test_callbacks.py",
    "test_loop.py::TestTwoOptimizers",
    "test_loop.py::TestSeveralOutputs",
    "test_row_metrics.py",
    "test_targets.py",
    "test_train.py::TestMlp::test_equals_keras_itself",
    "test_train.py::TestResumption::test_after_an_epoch",
    "test_train.py::TestGroups::test_processes_get_the_weights_of_one[mlp-3]",
    "test_train.py::TestWeightsAndEmptyData",
    "test_validation.py",
]
MODELS = [
    "test_evaluate_predict.py::TestEvaluate::test_a_tuple_of_datasets",
    "test_evaluate_predict.py::TestPredict::test_files",
    "test_evaluate_predict.py::TestPredict::test_rows_of_several_models_with_several_outputs",
    "test_main.py::test_ranknet",
    "test_main.py::test_the_saved_ranker_is_the_trained_one",
    "test_objects.py",
    "test_operator.py::test_a_train_operator_gets_the_saved_model",
    "test_operator.py::test_a_batch_operator_gets_the_model_as_rows",
    "test_saved_function.py",
    "test_saving.py",
    "../models/test_keras_sequential.py",
]


@pytest.mark.parametrize("tests", [TRAINING, MODELS], ids=["training", "models"])
def test_keras_3(tmp_path: Path, tests: list[str]) -> None:
    make(tmp_path)
    python = NEWEST.python()
    environment = {
        **os.environ,
        **ENVIRONMENT,
        FOLDER: str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(ROOT), pytest_for(python)]),
    }
    # Without conftest.py: it looks for what jobs leave behind, and here are none.
    command = [python, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", *(f"tests/keras/{one}" for one in tests)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stdout[-10_000:]
    assert "skipped" not in done.stdout.splitlines()[-1]
