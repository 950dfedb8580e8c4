"""Configs of Keras with PyTorch and JAX, and the checkpoint that a restart continues from."""

from __future__ import annotations

import json
import pathlib
import types
from typing import Any
from unittest.mock import MagicMock

import pytest

from akdl.keras.backend_training import BackendError, _Checkpoints, _made
from akdl.training.user_functions import ObjectError


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


@pytest.mark.parametrize("wrong", [{"every_epochs": 0}, {"keep": 0}, {"every_steps": 5}])
def test_wrong_numbers_of_the_checkpoint_callback_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BackendError, match=f"callbacks: .*{next(iter(wrong))}.* of checkpoint"):
        _Checkpoints("here", **wrong)


def test_user_function_takes_the_arguments_of_a_config() -> None:
    def scaled(label: float, output: float, factor: float = 1.0) -> float:
        return factor * (label - output)

    def made(**args: Any) -> Any:
        return _made({"name": "scaled", "args": args}, types.SimpleNamespace(), user)

    user = types.SimpleNamespace(scaled=scaled)
    assert made() is scaled
    assert made(factor=2.0)(5, 2) == 6 and made(factor=2.0).__name__ == "scaled"
    assert made(name="other")(5, 2) == 3 and made(name="other").__name__ == "other"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("huber", "huber: expected a class of keras.losses, or a class or function of your module"),
        ("own", "own: .* unexpected keyword argument 'x'; its arguments are delta"),
    ],
)
def test_arguments_that_nothing_takes_are_refused(name: str, told: str) -> None:
    class OwnLoss:
        def __init__(self, delta: float = 1.0) -> None:
            self.delta = delta

    with pytest.raises((BackendError, ObjectError), match=told):
        _made(
            {"name": name, "args": {"x": 1}},
            types.ModuleType("keras.losses"),
            types.SimpleNamespace(own=OwnLoss),
        )
