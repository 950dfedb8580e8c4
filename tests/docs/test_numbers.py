"""The numbers that Keras prints of the first training on the pages are those of a model that has learned."""

from __future__ import annotations

import re
import types
from pathlib import Path

import numpy as np
import pytest

from akdl import testing

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.tf, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")]


@pytest.mark.parametrize("page", ["docs/first_steps.md", "docs/zh/first_steps.md"])
def test_the_accuracy_of_the_first_steps(page: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = next(
        block
        for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
        if "def main" in block
    )
    script = types.ModuleType("train")
    exec(source, vars(script))  # the page's own script
    random = np.random.default_rng(1)
    age, visits = random.integers(18, 80, 2000), random.poisson(5, 2000)
    rows = {"age": age, "visits": visits, "bought": (age + 8 * visits > 90).astype(int)}
    task_config = testing.train_task_config(rows, {"age": "FLOAT", "visits": "FLOAT", "bought": "INT"}, str(tmp_path))
    script.main(task_config)
    printed = re.findall(r"accuracy: ([0-9.]+)", capfd.readouterr().out)
    assert printed and float(printed[-1]) > 0.8, "of all steps together, from the first one on"
