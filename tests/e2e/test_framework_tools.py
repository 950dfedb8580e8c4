"""What shows a script at work, and what is left of one that fails, is the same with each framework:
`make test-frameworks`.
"""

from __future__ import annotations

import os
import pathlib

import pytest

from bridge.host import gpus
from bridge.member.status import PEERS, WORK
from bridge.settings import UserFile
from operators.errors.summary import LINES, summary_of
from operators.progress.record import read_record
from operators.tools import report
from operators.tools.advice import advise
from operators.tools.running_scripts import stacks, top
from tests.akdl.test_replay import SAME, failed, replayed
from tests.operators.tools.test_bottlenecks import Group, recorded, rows
from tests.support.frameworks import python_with
from tests.support.leftovers import DEADLINE_S, wait_until

pytestmark = [pytest.mark.process, pytest.mark.frameworks, pytest.mark.timeout(10 * DEADLINE_S)]

# The largest number of all workers, of which numpy has one.
LARGEST = {
    "numpy": """
import numpy as np

def joined():
    return np.asarray
""",
    "torch": """
import torch, torch.distributed as dist

def joined():
    dist.init_process_group("gloo")
    def largest(number):
        result = torch.tensor(number)
        dist.all_reduce(result, dist.ReduceOp.MAX)
        return result
    return largest
""",
    "jax": """
import jax, jax.numpy as jnp
from jax.experimental.multihost_utils import process_allgather

def joined():
    address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    jax.distributed.initialize(address, int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
    return lambda number: jnp.max(process_allgather(jnp.float32(number)))
""",
}
STEPS = """
def main(config):
    (rows,) = config.context.arrays(1_000_000)
    largest, over, step = joined(), 0.0, 0
    while not over:
        if config.task_type == "worker" or config.num_workers == 1:
            busy(0.5)
        step += 1
        over = largest(float(step > 1 and is_over(config)))
        config.report(step, over=over, row=rows["id"].max())
"""
# Reads a matrix of two columns from an ARRAY column.
READS = {
    "numpy": "import numpy as np\n\ndef read(cells, count):\n    return cells.reshape(count, 2) @ np.ones((2, 1), 'f')\n",
    "torch": """
import torch

class Model(torch.nn.Module):
    def forward(self, cells):
        return torch.tensor(cells[0]).reshape(cells[1], 2) @ torch.ones(2, 1)

def read(*cells):
    return Model()(cells)
""",
    "jax": "import jax\n\nread = jax.jit(lambda cells, count: cells.reshape(count, 2).sum(1), static_argnums=1)\n",
}
FAILS = """
import os

def main(config):
    assert os.environ["CUDA_VISIBLE_DEVICES"] == config.user_params["device"]
    for rows in config.context.arrays(50):
        read(rows["cells"].values, len(rows["id"]))
"""


@pytest.mark.parametrize("framework", LARGEST)
def test_steps_stacks_and_waits_of_a_script_are_shown(
    framework: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workers, use, place, advice = (
        (1, WORK, "in busy", " s in busy (train.py)")
        if framework == "numpy"
        else (2, PEERS, f"/{framework}/", "worker 0 holds up the other workers")
    )
    group = Group(tmp_path, LARGEST[framework] + STEPS, workers, rows(10), python_with(framework))
    with recorded(tmp_path, group, workers) as share:
        group.start()
        wait_until(lambda: share(use) > 0.7, f"most time is {use}", 4 * DEADLINE_S)
        shown = ""

        def is_caught() -> bool:
            # On a busy machine the members may be between two steps.
            nonlocal shown
            assert (top([str(os.getpid())]), stacks([str(os.getpid())])) == (0, 0)
            shown = capsys.readouterr().out
            return place in shown

        wait_until(is_caught, f"the stacks show {place}", 4 * DEADLINE_S)
    assert shown.count("--- TestOp, train.py, ") == workers and "in main" in shown
    assert "training" in shown
    (path,) = (tmp_path / "logs").iterdir()
    assert report.main([str(path)]) == 0
    record = read_record(path.read_text())
    # On a busy machine, advice on the start may come first.
    assert any(advice in each.text + each.evidence for each in advise(record))
    last = record.samples["chief 0"][-1][1]
    assert last.step > 1 and dict(last.metrics) == {"over": 1.0, "row": 9.0}


@pytest.mark.parametrize("framework", READS)
def test_a_failure_is_short_replayed_and_leaves_its_gpu(
    framework: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = f"fake{os.getpid()}"
    monkeypatch.setenv("AKDL_GPUS", device)
    script = UserFile("reads.py", (READS[framework] + FAILS).encode())
    text = failed(
        tmp_path, "", {"cells": 3}, main_script="reads.py", user_files=(script,), python=python_with(framework),
        gpus_per_worker=1, params={"device": device},
    )  # fmt: skip
    assert gpus.holders([device]) == {}
    shown = summary_of(text)
    innermost = next(line for line in script.content.decode().splitlines() if ".reshape(" in line)
    assert len(shown.splitlines()) < LINES and f"\n    {innermost.strip()}" in shown, shown
    done = replayed(text)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, SAME), text + done.stderr
