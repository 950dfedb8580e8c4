"""A model takes over from another one while rows are predicted."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from typing import Any

import numpy as np
import pytest

from akdl.serving.live_model import LiveModel
from akdl.serving.model import ServedModel
from akdl.serving.output_cells import OutputColumn
from akdl.serving.prediction_errors import ServingError, SignatureError
from akdl.storage.model_archive import ModelError
from tests.akdl.serving import models
from tests.support.deadline import DEADLINE_S

pytestmark = pytest.mark.tf


def load(folder: str) -> ServedModel:
    return ServedModel(folder, inputs=["x", "k"], outputs=[OutputColumn("p", "DOUBLE")], batch_size=4)


def answer(live: LiveModel, rows: dict[str, Any]) -> list[float]:
    results, bad, _ = live.predict_collecting(rows, len(rows["k"]))
    assert not bad
    return [float(cell) for cell in results["p"]]


def test_each_batch_is_of_one_model_and_none_fails(tmp_path: Any) -> None:
    live = LiveModel(models.scaled(1.0), load)
    rows = {"x": np.ones([11, 3], "f4"), "k": np.zeros(11, "i8")}
    seen: list[list[float]] = [[], [], []]
    done, errors = threading.Event(), []

    def ask(own: list[float]) -> None:
        try:
            while not done.is_set():
                batch = set(answer(live, rows))
                assert len(batch) == 1, batch
                own.extend(batch)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(own,)) for own in seen]
    for thread in threads:
        thread.start()
    factors = [1.0, 2.0, 3.0, 4.0, 5.0]
    for factor in factors[1:]:
        line = live.offer(models.scaled(factor), f"number {factor:g}")
        assert answer(live, rows) == [3 * factor] * 11
    done.set()
    for thread in threads:
        thread.join(2 * DEADLINE_S)
    assert not errors
    assert line.startswith("the model number 5 took over from the model number 4, after ")
    for own in seen:
        assert own == sorted(own) and set(own) <= {3 * factor for factor in factors}


def test_the_old_one_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        with tempfile.TemporaryDirectory() as other:
            packed = shutil.make_archive(other + "/m", "zip", models.scaled(1.0))
            live = LiveModel(packed, load)
            (first,) = (name for name in os.listdir(folder) if name.startswith("akdl-model-"))
            old = live.model
            live.offer(packed, "again")
            left = [name for name in os.listdir(folder) if name.startswith("akdl-model-")]
            assert len(left) == 1 and left != [first]
            with pytest.raises(ServingError, match="the model is closed"):
                old.predict({"x": np.ones([1, 3], "f4"), "k": np.zeros(1, "i8")})
            live.remove_files()
            assert not [name for name in os.listdir(folder) if name.startswith("akdl-model-")]


def test_what_does_not_fit_leaves_the_old_one(tmp_path: Any) -> None:
    live = LiveModel(models.scaled(1.0), load)
    rows = {"x": np.ones([3, 3], "f4"), "k": np.zeros(3, "i8")}
    assert answer(live, rows) == [3.0] * 3
    with pytest.raises(SignatureError, match="no output 'p'.*'q' float32"):
        live.offer(models.scaled(2.0, output="q"), "other output")
    with pytest.raises(SignatureError, match="only input 'a' int64 .* has 2 columns"):
        live.offer(models.identity("int64", (None,)), "other inputs")
    with pytest.raises(ServingError, match=r"cannot predict a row that the current model can: .*'x'.*\[4\].*\[3\]"):
        live.offer(models.scaled(2.0, width=4), "wider")
    broken = shutil.copytree(models.scaled(2.0), tmp_path / "broken")
    (broken / "variables" / "variables.index").unlink()
    with pytest.raises(ModelError, match="cannot be loaded"):
        live.offer(str(broken), "broken")
    (broken / "saved_model.pb").write_bytes(b"\xff\xff")
    with pytest.raises(ModelError, match="damaged"):
        live.offer(str(broken), "broken")
    assert answer(live, rows) == [3.0] * 3
    live.offer(models.scaled(2.0), "good")
    assert answer(live, rows) == [6.0] * 3


def test_rows_that_neither_can_predict_are_no_reason(tmp_path: Any) -> None:
    live = LiveModel(models.scaled(1.0), load)
    _results, bad, _ = live.predict_collecting({"x": [[1.0, 1.0, 1.0], None], "k": [0, 0]}, 2)
    assert [row for row, _ in bad] == [1]
    live.offer(models.scaled(2.0), "good")
