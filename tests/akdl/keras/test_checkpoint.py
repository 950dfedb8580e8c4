"""Files of checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl.keras import checkpoint
from akdl.keras.checkpoint import CheckpointError


class Variable:
    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)
        self.shape = self.value.shape

    def numpy(self) -> Any:
        return self.value

    def assign(self, value: Any) -> None:
        self.value = value


def test_there_and_back(tmp_path: Path) -> None:
    arrays = {"model/0": np.arange(6.0).reshape(2, 3), "number": np.array(3, np.int64)}
    path = checkpoint.save(str(tmp_path), 12, arrays, {"history": [{"loss": 0.1}], "seed": None}, keep=1)
    assert checkpoint.latest(str(tmp_path)) == path
    loaded, progress = checkpoint.load(path)
    assert progress == {"history": [{"loss": 0.1}], "seed": None}
    assert {name: value.tolist() for name, value in loaded.items()} == {name: value.tolist() for name, value in arrays.items()}


def test_only_the_last_are_kept(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-000000099.npz.1.part").write_text("cut off")
    for steps in (9, 10, 1000000000, 11):
        checkpoint.save(str(tmp_path), steps, {}, {}, keep=2)
    assert sorted(path.name for path in tmp_path.glob("*.npz")) == ["checkpoint-000000011.npz", "checkpoint-1000000000.npz"]
    assert checkpoint.latest(str(tmp_path)) == str(tmp_path / "checkpoint-1000000000.npz")


def test_none(tmp_path: Path) -> None:
    assert checkpoint.latest(str(tmp_path)) is None
    assert checkpoint.latest(str(tmp_path / "missing")) is None


def test_variables() -> None:
    taken = checkpoint.values_of("model/", [Variable([1.0]), Variable([[2.0]])])
    variables = [Variable([0.0]), Variable([[0.0]])]
    checkpoint.assign("c.npz", "model/", variables, {**taken, "model/x": 1, "optimizer0/0": 1})
    assert [one.value.tolist() for one in variables] == [[1.0], [[2.0]]]
    with pytest.raises(
        CheckpointError, match=r"c.npz belongs to another model .*: model has shapes \[\(2,\)\], the checkpoint"
    ):
        checkpoint.assign("c.npz", "model/", [Variable([0.0, 0.0])], taken)
