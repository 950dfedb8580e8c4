"""Checkpoints of Keras trainings: variables and values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.tf, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def variables(*values: Any) -> list[Any]:
    import tensorflow as tf

    return [tf.Variable(value) for value in values]


def test_variables_and_values_come_back(tmp_path: Path) -> None:
    from akdl.training.checkpoints import latest, restore, save

    values = {
        "history": [{"loss": 0.1}],
        "seed": None,
        "arrays": [np.arange(6.0).reshape(2, 3), np.array(3, np.int64)],
    }
    path = save(str(tmp_path), 1, True, values, model=variables([1.0], [[2.0]]))
    assert latest(str(tmp_path)) == path
    model = variables([0.0], [[0.0]])
    found = restore(str(tmp_path), None, model=model)
    assert found is not None and found[0] == path
    assert [one.numpy().tolist() for one in model] == [[1.0], [[2.0]]]
    arrays = found[1].pop("arrays")
    assert found[1] == {"history": [{"loss": 0.1}], "seed": None}
    assert [(one.dtype, one.tolist()) for one in arrays] == [
        (one.dtype, one.tolist()) for one in values["arrays"]
    ]


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    from akdl.training.checkpoints import latest, restore, save

    for number in range(11):
        assert save(str(tmp_path), 2, False, {"number": number}, model=variables(1.0)) is None, (
            "only the chief's is used"
        )
        save(str(tmp_path), 2, True, {"number": number}, model=variables(1.0))
    assert sorted(path.name for path in tmp_path.glob("*.index")) == [
        "checkpoint-10.index",
        "checkpoint-11.index",
    ]
    assert len(list(tmp_path.iterdir())) == 5, "two files each, and their list"
    assert latest(str(tmp_path)) == str(tmp_path / "checkpoint-11")
    save(str(tmp_path), None, True, {"number": 11}, model=variables(1.0))
    assert len(list(tmp_path.glob("*.index"))) == 3, "None keeps all"
    found = restore(str(tmp_path), None, model=variables(0.0))
    assert found is not None and found[1] == {"number": 11}


def test_checkpoints_may_be_saved_to_a_relative_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from akdl.training.checkpoints import latest, save

    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    save("here", 1, True, {}, model=variables(1.0))
    assert latest("here") == "here/checkpoint-1" and latest(str(tmp_path / "here")) == str(
        tmp_path / "here/checkpoint-1"
    )


def test_folder_without_checkpoints_restores_nothing(tmp_path: Path) -> None:
    from akdl.training.checkpoints import latest, restore

    assert latest(str(tmp_path)) is None and latest(str(tmp_path / "missing")) is None
    assert restore(str(tmp_path), lambda values: [2 * value for value in values]) is None


@pytest.mark.fault(
    "security",
    "Links that another user plants in the way of a checkpoint are replaced, never followed",
)
def test_links_in_the_way_are_replaced(tmp_path: Path) -> None:
    from akdl.training.checkpoints import restore, save

    precious = tmp_path / "precious"
    precious.write_text("mine")
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    for name in ("checkpoint", "checkpoint-1.index", "checkpoint-1.data-00000-of-00001"):
        (folder / name).symlink_to(precious if name != "checkpoint" else tmp_path / "nothing")
    save(str(folder), 1, True, {}, model=variables(1.0))
    assert precious.read_text() == "mine" and not (tmp_path / "nothing").exists()
    assert restore(str(folder), None, model=variables(0.0)) is not None


def test_restore_refuses_a_checkpoint_of_another_model(tmp_path: Path) -> None:
    from akdl.training.checkpoints import CheckpointError, restore, save

    save(str(tmp_path), 1, True, {}, model=variables([1.0], [[2.0]]))
    for model in (
        variables([0.0, 0.0], [[0.0]]),
        variables([0.0]),
        variables([0.0], [[0.0]], [0.0]),
    ):
        match = r"checkpoint-1 belongs to another model or another optimizer: model has shapes .*, the checkpoint has \[\[1\], "
        with pytest.raises(CheckpointError, match=match):
            restore(str(tmp_path), None, model=model)
    with pytest.raises(CheckpointError, match="the workers see different checkpoints"):
        restore(str(tmp_path), lambda values: [2.0, 1.0], model=variables([1.0], [[2.0]]))
