"""A model for each value of a column: which rows get which model, which keys are refused, and which models stay loaded."""

from __future__ import annotations

import pathlib
import shutil
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from akdl.serving import keyed_models
from akdl.serving.keyed_models import KeyedModels
from akdl.serving.model import ServedModel
from akdl.serving.output_cells import OutputColumn
from tests.akdl.serving import models
from tests.support.deadline import DEADLINE_S

pytestmark = pytest.mark.tf
Make = Callable[..., KeyedModels]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Models that multiply by 2, 3 and 5: in a folder, in a folder of a version, and in an archive."""
    place = tmp_path_factory.mktemp("models")
    shutil.copytree(models.scaled(2.0), place / "de")
    shutil.copytree(models.scaled(3.0), place / "7" / "1717171717")
    shutil.make_archive(str(place / "fr"), "zip", models.scaled(5.0))
    (place / "empty").mkdir()
    shutil.copytree(models.scaled(1.0, 3, "q"), place / "other")
    return place


@pytest.fixture
def keyed(folder: pathlib.Path) -> Iterator[Make]:
    made: list[KeyedModels] = []

    def make(place: object = folder, **changes: Any) -> KeyedModels:
        loaded: list[str] = []

        def load(path: str) -> ServedModel:
            loaded.append(path)
            return ServedModel(path, inputs=["x", "k"], outputs=[OutputColumn("p", "DOUBLE")])

        made.append(KeyedModels(str(place), "key", load, ["p", "m"], model_column="m", **changes))
        made[-1].loaded = loaded  # type: ignore[attr-defined]
        return made[-1]

    yield make
    for each in made:
        each.close()


def columns(keys: Any) -> dict[str, Any]:
    x = np.zeros((len(keys), 3), "f4")
    x[:, 0] = np.arange(len(keys)) + 1
    return {"x": x, "k": np.zeros(len(keys), "i8"), "key": keys}


def test_each_row_gets_its_model_in_the_order_of_rows(keyed: Make) -> None:
    results, bad, _ = keyed().predict_collecting(columns([b"fr", b"de", b"7", b"de", b"fr"]), 5)
    assert not bad and results["p"].tolist() == [5, 4, 9, 8, 25]
    assert results["m"] == ["fr", "de", "7/1717171717", "de", "fr"]
    results, bad, _ = keyed().predict_collecting(columns(np.array([7, 7])), 2)
    assert not bad and results["p"].tolist() == [3, 6]


@pytest.mark.fault("data", "A key that is missing, or no plain name, is an error of its row, and never leads out of the folder")
def test_keys_without_a_model(keyed: Make, folder: pathlib.Path) -> None:
    odd = [
        "../models",
        "..",
        ".",
        "",
        "/etc",
        "de/..",
        "de\0",
        ".hidden",
        "~",
        "s3://a",
        "a%2e",
        "a#b",
        "a\nb",
        "x" * 300,
        "\udcff",
    ]
    keys = ["de", None, "nowhere", *odd, "de"]
    results, bad, _ = keyed().predict_collecting(columns(keys), len(keys))
    assert [row for row, _ in bad] == list(range(1, len(keys) - 1))
    messages = dict(bad)
    assert messages[1] == "column 'key': expected the name of a model, of letters, digits and ._-=+@ after the first, got null"
    assert messages[2] == f"column 'key': there is no model 'nowhere' in {folder}"
    for row, key in enumerate(odd, 3):
        assert messages[row].endswith(f"after the first, got {key[:50]!r}")
    assert results["p"] == [2.0, *[None] * (len(keys) - 2), 2.0 * len(keys)]


@pytest.mark.fault("data", "A model of a key that is broken, or takes other inputs, is an error of its rows alone")
def test_models_that_cannot_be_used(keyed: Make) -> None:
    served = keyed()
    for _ in range(2):
        results, bad, _ = served.predict_collecting(columns(["empty", "de", "other"]), 3)
        assert results["p"] == [None, 4.0, None]
        assert "expected a SavedModel" in bad[0][1] and "the model 'other': the model has no output 'p'" in bad[1][1]
    assert [path.rpartition("/")[2] for path in served.loaded] == ["de", "other"]  # type: ignore[attr-defined]


def test_missing_models_cost_a_look_each_and_are_remembered_up_to_a_bound(keyed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each one collected garbage, which takes 85 ms beside TensorFlow, while all other models waited."""
    collected: list[int] = []
    monkeypatch.setattr(keyed_models.gc, "collect", lambda: collected.append(1))
    monkeypatch.setattr(keyed_models, "_MOST_ERRORS", 10)
    served = keyed()
    keys = ["de", *map(str, range(100, 200))]
    for _ in range(2):
        results, bad, _ = served.predict_collecting(columns(keys), len(keys))
        assert len(bad) == 100 and results["p"][0] == 2.0
    assert not collected and len(served._errors) == 10 and list(served._models) == ["de"]


def test_model_that_was_missing_is_found_later(
    keyed: Make, folder: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = keyed(tmp_path)
    assert served.predict_collecting(columns(["new"]), 1)[1]
    shutil.copytree(folder / "de", tmp_path / "new")
    assert served.predict_collecting(columns(["new"]), 1)[1], "it is not looked for each time"
    monkeypatch.setattr(keyed_models, "_AGAIN_S", 0.0)
    results, bad, _ = served.predict_collecting(columns(["new"]), 1)
    assert not bad and results["p"].tolist() == [2] and not served._errors


def test_a_default_model_for_missing_ones_alone(keyed: Make) -> None:
    results, bad, _ = keyed(default="de").predict_collecting(columns(["nowhere", "../de", "7", "empty"]), 4)
    assert results["p"] == [2.0, None, 9.0, None] and results["m"] == ["de", None, "7/1717171717", None]
    assert [row for row, _ in bad] == [1, 3]
    with pytest.raises(ValueError, match="there is no model 'nowhere'"):
        keyed(default="nowhere")


def test_models_that_were_not_used_for_longest_leave(keyed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_models, "_resident_bytes", lambda: 0)
    size = sum(path.stat().st_size for path in pathlib.Path(models.scaled(2.0)).rglob("*") if path.is_file())
    served = keyed(cache_bytes=int((size + keyed_models._OWN_BYTES) * 2.5))

    def loaded() -> list[str]:
        return list(served._models)

    for key, names in [("de", ["de"]), ("7", ["de", "7"]), ("de", ["7", "de"]), ("fr", ["de", "fr"]), ("7", ["fr", "7"])]:
        results, bad, _ = served.predict_collecting(columns([key]), 1)
        assert not bad and results["p"].tolist() == [{"de": 2, "7": 3, "fr": 5}[key]] and loaded() == names
    folder = served._models["fr"].folder.path
    served.predict_collecting(columns(["de"]), 1)
    assert loaded() == ["7", "de"] and not pathlib.Path(folder).exists()


def test_a_model_stays_while_rows_are_in_it(keyed: Make) -> None:
    served = keyed(cache_bytes=1)
    keys, wrong = ["de", "7", "fr"] * 4, []

    def predict() -> None:
        for _ in range(3):
            results, bad, _ = served.predict_collecting(columns(keys), len(keys))
            expected = [[2, 3, 5][row % 3] * (row + 1) for row in range(len(keys))]
            wrong.extend(bad or ([] if results["p"].tolist() == expected else [results["p"]]))

    threads = [threading.Thread(target=predict) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(served._models) <= 3


def test_loaded_models_predict_while_another_is_loaded(keyed: Make) -> None:
    made, started, go_on = keyed(), threading.Event(), threading.Event()
    made.predict_collecting(columns([b"de"]), 1)
    load = made._load

    def slowly(path: str) -> ServedModel:
        started.set()
        assert go_on.wait(2 * DEADLINE_S)
        return load(path)

    made._load = slowly
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(made.predict_collecting(columns([b"fr"]), 1))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert started.wait(2 * DEADLINE_S)
    try:
        assert made.predict_collecting(columns([b"de"]), 1)[0]["p"].tolist() == [2]
    finally:
        go_on.set()
        for thread in threads:
            thread.join()
    assert [results["p"].tolist() for results, _, _ in found] == [[5], [5]]
    assert len(made.loaded) == 2, "the two calls loaded it once"  # type: ignore[attr-defined]


def test_an_archive_of_the_folder(keyed: Make, folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    served = keyed(shutil.make_archive(str(tmp_path / "all"), "zip", folder))
    results, bad, _ = served.predict_collecting(columns(["fr", "7"]), 2)
    assert not bad and results["p"].tolist() == [5, 6] and results["m"] == ["fr", "7/1717171717"]
    unpacked = served._place
    served.close()
    assert not pathlib.Path(unpacked).exists()


def test_an_address(keyed: Make, folder: pathlib.Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(folder / "de"), "/keyed/de", recursive=True)
    memory.put_file(str(folder / "fr.zip"), "/keyed/fr.zip")
    try:
        results, bad, _ = keyed("memory://keyed").predict_collecting(columns(["fr", "de", "7"]), 3)
    finally:
        memory.rm("/keyed", recursive=True)
    assert results["p"] == [5.0, 4.0, None] and "there is no model '7' in memory://keyed: " in bad[0][1]
