"""Scripts of PyTorch and JAX, in Pythons without TensorFlow: `make test-frameworks`."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import numpy as np
import pytest

from bridge.exceptions import TaskError
from operators import resetEnv, useLocalEnv
from tests.e2e.test_exactly_once import outputs_of_killed
from tests.support.frameworks import python_with, trained
from tests.support.leftovers import DEADLINE_S

pytestmark = [pytest.mark.flink, pytest.mark.frameworks, pytest.mark.timeout(10 * DEADLINE_S)]

LEARNS = """
import os, sys
import torch
def main(config):
    assert "tensorflow" not in sys.modules
    total = torch.zeros((), dtype=torch.int64)
    config.checkpoint(
        lambda folder: torch.save(total, os.path.join(folder, "total.pt")),
        lambda folder: total.copy_(torch.load(os.path.join(folder, "total.pt"))),
        every_rows=200,
    )
    for rows in config.context.arrays(50):
        totals = total + torch.tensor(rows["id"]).cumsum(0)
        total.copy_(totals[-1])
        config.output_writer.write_batch({"id": rows["id"], "total": totals})
        if int(rows["id"][-1]) >= 1120:
            die()
"""


@pytest.fixture
def local_env() -> Iterator[None]:
    useLocalEnv(2)
    yield
    resetEnv()


SCRIPTS = pytest.mark.parametrize(
    ("framework", "script"), [("torch", "torch_ddp.py"), ("jax", "jax_mean.py")]
)


@SCRIPTS
def test_two_workers_in_step_train_as_one_process(
    framework: str, script: str, tmp_path: pathlib.Path, local_env: None
) -> None:
    """The script's own files come out of the model table."""
    one, two = (
        trained(script, python_with(framework), workers, tmp_path / str(workers))
        for workers in (1, 2)
    )
    assert len(one) == 33 and np.abs(one - two).max() <= 1e-6
    assert (
        np.abs(one - trained(script, python_with(framework), 1, tmp_path / "fewer", steps=1)).max()
        > 0.01
    )


@SCRIPTS
def test_worker_that_fails_is_named_by_the_job(
    framework: str, script: str, tmp_path: pathlib.Path, local_env: None
) -> None:
    """And not the other worker, which loses its connection to it in the middle of a step."""
    with pytest.raises(
        TaskError, match=rf"worker 0 \({script}\): the script failed: ValueError: planted"
    ):
        trained(script, python_with(framework), 2, tmp_path / "model", fails=1)


def test_missing_tensorflow_is_an_error_that_names_the_method(
    tmp_path: pathlib.Path, local_env: None
) -> None:
    python = python_with("torch")
    with pytest.raises(
        TaskError, match=rf"No module named 'tensorflow' \(batches needs TensorFlow: .*{python}"
    ):
        trained("torch_ddp.py", python, 1, tmp_path / "model", call="batches")


def test_state_of_a_killed_script_learns_each_row_once(tmp_path: pathlib.Path) -> None:
    found = outputs_of_killed(tmp_path, {"learns": LEARNS}, pythonEnv=python_with("torch"))[
        "learns"
    ]
    assert found == [(id, id * (id + 1) // 2) for id in range(len(found))]
