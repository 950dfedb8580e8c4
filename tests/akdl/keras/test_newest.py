"""What other files test with Keras 2, once more with Keras 3, on the newest TensorFlow: a telling
part of it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.akdl.keras.keras_2_models import FOLDER, make
from tests.akdl.keras.support import ENVIRONMENT
from tests.support.deadline import DEADLINE_S
from tests.support.tensorflows import NEWEST, pytest_for
from tests.support.tf_group import ROOT

pytestmark = [pytest.mark.tf, pytest.mark.slow]

# Models, steps, checkpoints and saving.
IN_CI = [
    "../training/test_loop.py::test_two_optimizers_equal_a_step_by_hand",
    "../training/test_loop.py::test_several_outputs_have_losses_and_metrics_of_their_own",
    "test_keras_training.py::test_mlp_equals_keras_itself",
    "test_saving.py",
    "test_epoch_end.py::test_trained_weights_equal_those_of_keras[checkpoint_dir-save_checkpoints_steps-rows still arriving]",
]
BEFORE_A_RELEASE = [
    "test_callbacks.py",
    "../training/test_row_metrics.py",
    "test_keras_training.py::test_resumption_after_an_epoch_gives_the_same_weights",
    "test_keras_training.py::test_group_gets_the_weights_of_one_process[mlp-3]",
    "test_keras_training.py::test_model_function_that_returns_no_model_is_refused",
    "test_validation.py",
    "test_evaluate.py::test_evaluate_numbers_the_datasets_of_a_tuple_and_writes_the_results",
    "test_predict.py::test_predict_gives_rows_of_several_models_with_several_outputs",
    "../training/test_objects.py",
    "test_operator.py::test_a_train_operator_gets_the_saved_model",
    "test_saved_function.py",
    # how others become numbers is not Keras's
    "../models/tf/keras_sequential/test_keras_sequential_main.py::test_predicted_labels_have_the_type_of_the_label_column[names0-STRING]",
    "../models/tf/keras_sequential/test_keras_sequential_main.py::test_training_goes_on_from_a_checkpoint",
    "../models/tf/dnn/test_dnn_batch.py::test_dnn_batch_writes_its_model_as_rows",
    # The types of labels, and how rows come, are not Keras's either.
    "../models/tf/dnn/test_keras_classifier.py",
    "test_epoch_end.py::test_trained_weights_equal_those_of_keras[steps_per_execution-rows still arriving]",
    "test_epoch_end.py::test_batches_tell_their_length_to_keras[4]",
    "test_epoch_end.py::test_batches_of_a_group_tell_no_length",
]
# Keras 3 has no optimizers from before TensorFlow 2.11.
NOT_OF_KERAS_3 = [
    "test_callbacks.py::test_learning_rate_of_an_optimizer_from_before_tensorflow_2_11_can_be_set",
]


@pytest.mark.parametrize(
    "tests",
    [
        pytest.param(IN_CI, id="some"),
        pytest.param(BEFORE_A_RELEASE, id="others", marks=pytest.mark.long),
    ],
)
def test_tests_of_keras_pass_with_keras_3(tests: list[str], tmp_path: Path) -> None:
    make(tmp_path)
    python = NEWEST.python()
    environment = {
        **os.environ,
        **ENVIRONMENT,
        FOLDER: str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(ROOT), pytest_for(python)]),
    }
    # Without conftest.py: it looks for what jobs leave behind, and here are none.
    command = [
        python,
        "-m",
        "pytest",
        "-q",
        "--noconftest",
        "-p",
        "no:cacheprovider",
        *(f"--deselect=tests/akdl/keras/{one}" for one in NOT_OF_KERAS_3),
        *(f"tests/akdl/keras/{one}" for one in tests),
    ]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=19 * DEADLINE_S
    )
    assert done.returncode == 0, done.stdout[-10_000:]
    assert "skipped" not in done.stdout.splitlines()[-1]
