"""Checkpoints of Keras with PyTorch and JAX: which epoch a restart continues from."""

from __future__ import annotations

import json
import pathlib
from unittest.mock import MagicMock

import pytest

from akdl.keras.backend_training import _Checkpoints


@pytest.mark.fault("data", "A restart continues from weights and metrics of one epoch")
@pytest.mark.parametrize(
    ("weights", "epochs", "last"),
    [([1, 2], 2, 2), ([1], 2, 1), ([1, 2], 1, 1), ([1], None, 0), ([], None, 0)],
)
def test_last_checkpoint_has_weights_and_metrics(
    weights: list[int], epochs: int | None, last: int, tmp_path: pathlib.Path
) -> None:
    for epoch in weights:
        (tmp_path / f"{epoch:08}.weights.h5").touch()
    if epochs is not None:
        (tmp_path / "history.json").write_text(json.dumps([{"loss": 1.0}] * epochs))
    model = MagicMock()
    assert len(_Checkpoints(str(tmp_path)).restore(model, iter([]))) == last
    loaded = [call.args[0] for call in model.load_weights.call_args_list]
    assert loaded == [str(tmp_path / f"{last:08}.weights.h5")] * bool(last)
