"""The numbers that trainings on the pages print are those of models that have learned;
test_blocks.py checks all pages that run.
"""

from __future__ import annotations

import re
import types
from pathlib import Path

import numpy as np
import pytest

from akdl import testing
from tests.support.plausible_numbers import implausible

ROOT = Path(__file__).parents[2]

WORKER = "[TF2TableModelTrainBatchOp, chief 0] "


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "300/300 [====] - 1s 1ms/step - loss: 0.2469 - accuracy: 0.1021",
            "accuracy is that of a model that has not learned",
        ),
        (" 1/16 - loss: 0.4\r16/16 - loss: 0.8262", "loss is that of a model that has not learned"),
        (
            "epoch 2/2  loss 0.21  auc(0) 0.48  (12 steps/s)",
            "auc is that of a model that has not learned",
        ),
        (f"{WORKER}2/2 - 0s - loss: nan", "loss is no number"),
        ("loss = inf, step = 100\nloss = 0.1, step = 200", "loss is no number"),
        ("train.py: 0 rows, 41 s: start 100%", "nothing was done"),
        ("1/0 steps", "nothing was done"),
        ("Epoch 1/20\n20/20 - loss: 0.1\nEpoch 2/2", "there were 20 epochs"),
    ],
)
def test_implausible_numbers_are_found(text: str, problem: str) -> None:
    assert [found.partition(": ")[0] for found in implausible(text)] == [problem]


@pytest.mark.parametrize(
    "text",
    [
        "1/20 - loss: 0.9 - binary_accuracy: 0.3\r20/20 - loss: 0.2469 - binary_accuracy: 0.9322",
        "loss = 3.2130287, step = 0\nloss = 0.0071, step = 200 (0.063 sec)",
        "train.py: 12,000 rows, 41 s: useful work 100%\ntrain.py: feeding, 0 rows in, 0 out",
        f"{WORKER}Epoch 1/3\n[TF2TableModelTrainBatchOp, worker 0] Epoch 1/3\n{WORKER}Epoch 2/3",
        "Epoch 1/3\nEpoch 2/3\nEpoch 3/3\nEpoch 1/2\nEpoch 2/2",
    ],
)
def test_plausible_numbers_pass(text: str) -> None:
    assert implausible(text) == []


@pytest.mark.tf
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
# Keras 3.15, of its own default
@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning")
@pytest.mark.parametrize(
    "page",
    ["docs/first_steps.md", pytest.param("docs/zh/first_steps.md", marks=pytest.mark.long)],
)
def test_accuracy_of_the_first_steps_is_that_of_a_trained_model(
    page: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = next(
        block
        for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
        if "def main" in block
    )
    import tensorflow as tf

    tf.keras.utils.set_random_seed(1)
    script = types.ModuleType("train")
    exec(source, vars(script))  # the page's own script
    random = np.random.default_rng(1)
    age, visits = random.integers(18, 80, 2000), random.poisson(5, 2000)
    rows = {"age": age, "visits": visits, "bought": (age + 8 * visits > 90).astype(int)}
    task_config = testing.train_task_config(
        rows, {"age": "FLOAT", "visits": "FLOAT", "bought": "INT"}, str(tmp_path)
    )
    script.main(task_config)
    printed = re.findall(r"accuracy: ([0-9.]+)", capfd.readouterr().out)
    assert printed and float(printed[-1]) > 0.8, "of all steps together, from the first one on"
