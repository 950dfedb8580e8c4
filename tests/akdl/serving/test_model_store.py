"""The versions of a model: a newer one takes over, a candidate predicts a share of the rows, and
keys have models of their own.
"""

from __future__ import annotations

import gc
import os
import pathlib
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from akdl.serving import model_store
from akdl.serving.loaded_model import LoadedModel, ServingError, SignatureError
from akdl.serving.model import WatchedCall
from akdl.serving.model_store import ModelStore
from akdl.serving.model_stream import publish
from akdl.storage.model_forms import ModelError
from akdl.wire import Serving, TableColumn
from tests.akdl.serving import models
from tests.support.deadline import DEADLINE_S, SLOWER

Make = Callable[..., ModelStore]
P = [models.OutputColumn("p", "DOUBLE")]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make stores; the folders that they load are in their attribute `loaded`."""
    made: list[ModelStore] = []
    load, loaded = model_store.load, []

    def loading(folder: str, serving: Serving) -> LoadedModel:
        loaded.append(folder)
        return load(folder, serving)

    monkeypatch.setattr(model_store, "load", loading)

    def make(model: object, *report: Any, inputs: Any = ("x", "k"), **settings: Any) -> ModelStore:
        made.append(ModelStore(models.serving_of(inputs, P, model=str(model), **settings), *report))
        made[-1].loaded = loaded  # type: ignore[attr-defined]
        return made[-1]

    yield make
    for each in made:
        each.close()


def answer(live: ModelStore, rows: dict[str, Any]) -> list[float]:
    results, bad, _ = live.predict(rows, len(rows["k"]))
    assert not bad
    return [float(cell) for cell in results["p"]]


@pytest.mark.tf
def test_each_batch_is_of_one_model_and_none_fails(store: Make, tmp_path: Any) -> None:
    lines: list[str] = []
    factors = [1.0, 2.0, 3.0]
    folders = [models.scaled(factor) for factor in factors]
    live = store(folders[0], lambda _, line: lines.append(line), infer_batch_size=4)
    rows = {"x": np.ones([11, 3], "f4"), "k": np.zeros(11, "i8")}
    seen: list[list[float]] = [[], []]
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
    for factor, folder in zip(factors[1:], folders[1:]):
        live.offer(folder, f"number {factor:g}")
        assert answer(live, rows) == [3 * factor] * 11
    done.set()
    for thread in threads:
        thread.join(2 * DEADLINE_S)
    assert not errors
    assert lines[-1].startswith("the model number 3 took over from the model number 2, after ")
    for own in seen:
        assert own == sorted(own) and set(own) <= {3 * factor for factor in factors}


@pytest.mark.tf
@pytest.mark.fault("jobs", "A restart begins with the newest model where the first one is gone")
def test_the_newest_model_is_taken_where_the_first_one_is_gone(store: Make, tmp_path: Any) -> None:
    folder = str(tmp_path / "models")
    first = publish(models.scaled(1.0), folder)
    publish(models.scaled(3.0), folder)
    shutil.rmtree(first)
    newer = {"model_stream_file_path": folder, "model_stream_scan_interval": 60.0}
    live = store(first, models_from_ms=1 << 50, **newer)
    assert answer(live, {"x": np.ones([1, 3], "f4"), "k": np.zeros(1, "i8")}) == [9.0]
    with pytest.raises(ModelError, match="the model cannot be read"):
        store(first)


@pytest.mark.tf
def test_replaced_model_is_closed_and_its_files_removed(
    store: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        with tempfile.TemporaryDirectory() as other:
            packed = shutil.make_archive(other + "/m", "zip", models.scaled(1.0))
            live = store(packed)
            (first,) = (name for name in os.listdir(folder) if name.startswith("akdl-model-"))
            old = live._versions["current"].model
            live.offer(packed, "again")
            left = [name for name in os.listdir(folder) if name.startswith("akdl-model-")]
            assert len(left) == 1 and left != [first]
            with pytest.raises(ServingError, match="the model is closed"):
                old.predict_collecting({"x": np.ones([1, 3], "f4"), "k": np.zeros(1, "i8")})
            live.remove_files()
            assert not [name for name in os.listdir(folder) if name.startswith("akdl-model-")]


@pytest.mark.tf
def test_closed_store_has_no_files_and_predicts_no_rows(
    store: Make, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = shutil.make_archive(str(tmp_path / "m"), "zip", models.scaled(1.0))
    (tmp_path / "places").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "places"))
    live = store(packed)
    assert os.listdir(tmp_path / "places")
    live.close()
    live.close()
    assert not os.listdir(tmp_path / "places")
    with pytest.raises(ServingError, match="is closed"):
        live.predict({"x": np.ones([1, 3], "f4"), "k": np.zeros(1, "i8")}, 1)


@pytest.mark.tf
def test_offered_model_that_does_not_fit_leaves_the_current_one(store: Make, tmp_path: Any) -> None:
    live = store(models.scaled(1.0))
    rows = {"x": np.ones([3, 3], "f4"), "k": np.zeros(3, "i8")}
    assert answer(live, rows) == [3.0] * 3
    with pytest.raises(SignatureError, match="no output 'p'.*'q' float32"):
        live.offer(models.scaled(2.0, output="q"), "other output")
    with pytest.raises(SignatureError, match="only input 'a' int64 .* has 2 columns"):
        live.offer(models.identity("int64", (None,)), "other inputs")
    with pytest.raises(
        ServingError, match=r"cannot predict a row that the current model can: .*'x'.*\[4\].*\[3\]"
    ):
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


@pytest.mark.tf
def test_rows_that_no_model_can_predict_do_not_refuse_a_new_model(
    store: Make, tmp_path: Any
) -> None:
    live = store(models.scaled(1.0))
    _results, bad, _ = live.predict({"x": [[1.0, 1.0, 1.0], None], "k": [0, 0]}, 2)
    assert [row for row, _ in bad] == [1]
    live.offer(models.scaled(2.0), "good")


def columns(rows: int, seed: int = 0) -> dict[str, Any]:
    return {
        "x": np.random.default_rng(seed).normal(size=(rows, 3)).astype("f4"),
        "k": np.arange(rows) % 5,
    }


@pytest.fixture
def made(store: Make) -> Make:
    def make(first: str, candidate: str, **settings: Any) -> ModelStore:
        return store(
            first, candidate_path=candidate, model_col="m", **{"candidate_share": 0.5, **settings}
        )

    return make


@pytest.mark.tf
def test_a_share_of_the_rows_is_predicted_by_both(made: Make) -> None:
    served, rows = made(models.scaled(2.0), models.scaled(3.0)), columns(1000)
    results, bad, _ = served.predict(rows, 1000)
    sums = rows["x"].sum(axis=1)
    assert (
        not bad
        and np.allclose(results["p"], sums * 2)
        and results["m"] == [os.path.basename(models.scaled(2.0)) + models.SERVED] * 1000
    )
    chosen = [row for row, cell in enumerate(results["shadow_p"]) if cell is not None]
    assert 400 < len(chosen) < 600
    assert np.allclose([results["shadow_p"][row] for row in chosen], sums[chosen] * 3, 1e-4)
    again, _, _ = served.predict({name: cells[::-1] for name, cells in rows.items()}, 1000)
    assert [999 - row for row, cell in enumerate(again["shadow_p"]) if cell is not None] == chosen[
        ::-1
    ]
    results, _, _ = made(models.scaled(2.0), models.scaled(3.0), candidate_share=0).predict(
        rows, 1000
    )
    assert results["shadow_p"] == [None] * 1000
    again = WatchedCall("request", is_retried=True)
    results, bad, _ = served.predict(rows, 1000, again)
    assert np.allclose(results["p"], sums * 2) and results["shadow_p"] == [None] * 1000, (
        "a batch of the candidate may have taken too long"
    )


@pytest.mark.tf
@pytest.mark.fault("jobs", "A candidate that refuses a row which the model predicts fails no row")
def test_row_that_the_candidate_refuses_is_null_in_its_columns_alone(made: Make) -> None:
    served = made(models.scaled(2.0), models.picky(3), candidate_share=1.0)
    rows = {**columns(40), "k": np.arange(40)}
    results, bad, _ = served.predict(rows, 40)
    assert (
        not bad
        and np.allclose(results["p"], rows["x"].sum(axis=1) * 2)
        and results["m"] == [os.path.basename(models.scaled(2.0)) + models.SERVED] * 40
    )
    assert [row for row, cell in enumerate(results["shadow_p"]) if cell is None] == [3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Models that multiply by 2, 3 and 5: in a folder, in a folder of a version, and in an
    archive.
    """
    place = tmp_path_factory.mktemp("models")
    shutil.copytree(models.scaled(2.0), place / "de")
    shutil.copytree(models.scaled(3.0), place / "7" / "1717171717")
    shutil.make_archive(str(place / "fr"), "zip", models.scaled(5.0))
    (place / "empty").mkdir()
    shutil.copytree(models.scaled(1.0, 3, "q"), place / "other")
    return place


@pytest.fixture
def keyed(store: Make, folder: pathlib.Path) -> Make:
    return lambda place=folder, **settings: store(
        place, inputs=("x", "k", "key"), model_key_col="key", model_col="m", **settings
    )


def keyed_columns(keys: Any) -> dict[str, Any]:
    x = np.zeros((len(keys), 3), "f4")
    x[:, 0] = np.arange(len(keys)) + 1
    return {"x": x, "k": np.zeros(len(keys), "i8"), "key": keys}


@pytest.mark.tf
def test_each_row_gets_its_model_in_the_order_of_rows(keyed: Make) -> None:
    results, bad, _ = keyed().predict(keyed_columns([b"fr", b"de", b"7", b"de", b"fr"]), 5)
    assert not bad and results["p"].tolist() == [5, 4, 9, 8, 25]
    names = ["fr", "de", "7/1717171717", "de", "fr"]
    assert results["m"] == [name + models.SERVED for name in names]
    results, bad, _ = keyed().predict(keyed_columns(np.array([7, 7])), 2)
    assert not bad and results["p"].tolist() == [3, 6]


@pytest.mark.fault(
    "data",
    "A key that is missing, or no plain name, is an error of its row, and never leads out of the folder",
)
@pytest.mark.tf
def test_keys_without_a_model_are_errors_of_their_rows(keyed: Make, folder: pathlib.Path) -> None:
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
    results, bad, _ = keyed().predict(keyed_columns(keys), len(keys))
    assert [row for row, _ in bad] == list(range(1, len(keys) - 1))
    messages = dict(bad)
    assert (
        messages[1]
        == "column 'key': expected the name of a model, of letters, digits and ._-=+@ after the first, got null"
    )
    assert messages[2] == f"column 'key': there is no model 'nowhere' in {folder}"
    for row, key in enumerate(odd, 3):
        assert messages[row].endswith(f"after the first, got {key[:50]!r}")
    assert results["p"] == [2.0, *[None] * (len(keys) - 2), 2.0 * len(keys)]


@pytest.mark.fault(
    "data", "A model of a key that is broken, or takes other inputs, is an error of its rows alone"
)
@pytest.mark.tf
def test_unusable_models_of_a_key_are_errors_of_their_rows(keyed: Make) -> None:
    served = keyed()
    for _ in range(2):
        results, bad, _ = served.predict(keyed_columns(["empty", "de", "other"]), 3)
        assert results["p"] == [None, 4.0, None]
        assert (
            "expected a SavedModel" in bad[0][1]
            and "the model 'other': the model has no output 'p'" in bad[1][1]
        )
    assert [path.rpartition("/")[2] for path in served.loaded] == ["empty", "de", "other"]  # type: ignore[attr-defined]


@pytest.fixture
def functions(tmp_path: pathlib.Path) -> Serving:
    """Two models of a function, `m/1` and `m/bad`, and settings without a model."""
    for name in ("1", "bad"):
        (tmp_path / "m" / name).mkdir(parents=True)
    return Serving(
        function_folder=str(tmp_path),
        input_columns=[TableColumn(name="x", type="DOUBLE")],
        output_columns=[TableColumn(name="y", type="DOUBLE")],
    )


@pytest.mark.fault("data", "A function that cannot load the model of a key fails its rows alone")
def test_error_of_a_function_for_a_key_is_one_of_its_rows(
    functions: Serving, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "of_key.py").write_text(
        "def load(path):\n    if 'bad' in path: 1 / 0\n    return lambda batch: batch['x']\n"
    )
    functions.MergeFrom(
        Serving(function="of_key.py:load", model=f"{tmp_path}/m", model_key_col="k")
    )
    functions.input_columns.add(name="k", type="STRING")
    served = ModelStore(functions)
    results, bad, _ = served.predict({"x": np.arange(2.0), "k": [b"bad", b"1"]}, 2)
    served.close()
    assert list(results["y"]) == [None, 1.0]
    assert bad == [(0, "column 'k': the model 'bad': division by zero")]


def test_refused_model_leaves_memory_at_once(functions: Serving, tmp_path: pathlib.Path) -> None:
    (tmp_path / "of_cycles.py").write_text(
        "class InCycle:\n"
        "    def __init__(self, path):\n        self.path, self.itself = path, self\n"
        "    def __call__(self, batch):\n        return batch['x'] / ('bad' not in self.path)\n"
        "def load(path):\n    return InCycle(path)\n"
    )
    functions.MergeFrom(Serving(function="of_cycles.py:load", model=f"{tmp_path}/m/1"))
    served = ModelStore(functions)
    served.predict({"x": np.arange(2)}, 2)
    with np.errstate(all="raise"), pytest.raises(ServingError, match="a row that the current"):
        served.offer(f"{tmp_path}/m/bad", "bad")
    paths = [each.path for each in gc.get_objects() if type(each).__name__ == "InCycle"]
    assert paths == [f"{tmp_path}/m/1"]
    served.close()


@pytest.mark.fault("jobs", "A restart whose first model is gone finds the newest usable one")
def test_the_newest_usable_model_is_taken_where_the_first_one_is_gone(
    functions: Serving, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "of_restart.py").write_text(
        "def load(path):\n    if 'bad' in path:\n        raise ValueError(path)\n"
        "    return lambda batch: batch['x']\n"
    )
    os.utime(tmp_path / "m" / "1", (1, 1))
    places = {"model": f"{tmp_path}/m/0", "model_stream_file_path": f"{tmp_path}/m"}
    functions.MergeFrom(Serving(function="of_restart.py:load", model_col="m", **places))
    functions.models_from_ms, functions.model_stream_scan_interval = 1 << 50, 60.0
    served = ModelStore(functions)
    assert served.predict({"x": np.ones(1)}, 1)[0]["m"] == ["1 kind=function"]
    served.close()
    os.rmdir(tmp_path / "m" / "1")
    with pytest.raises(ValueError, match="m/bad"):
        ModelStore(functions)


@pytest.mark.fault("jobs", "A newer model that hangs is refused, and a later one takes over")
def test_newer_model_that_hangs_is_refused(functions: Serving, tmp_path: pathlib.Path) -> None:
    (tmp_path / "of_hanging.py").write_text("""
import threading
def load(path):
    waits = threading.Event()
    return lambda batch: (waits.wait() if 'bad' in path else 1) * batch['x']
""")
    functions.MergeFrom(Serving(function="of_hanging.py:load", model=f"{tmp_path}/m/1"))
    functions.infer_timeout = 1.0 * SLOWER
    served = ModelStore(functions)
    served.predict({"x": np.arange(2.0)}, 2)
    with pytest.raises(
        ServingError, match=rf"not predict 2 rows within {SLOWER:g} s \(inferTimeout\)"
    ):
        served.offer(f"{tmp_path}/m/bad", "bad")
    served.offer(f"{tmp_path}/m/1", "again")
    assert served.predict({"x": np.arange(2.0)}, 2)[2].number == 2
    served.close()


@pytest.mark.fault("jobs", "A row that hung a model does not keep back the next one")
def test_row_that_hung_a_model_is_not_tried_with_a_newer_one(
    functions: Serving, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "of_hung.py").write_text("""
import threading
def load(path):
    waits = threading.Event()
    return lambda batch: (waits.wait() if batch['x'].any() else 1) * batch['x']
""")
    functions.MergeFrom(Serving(function="of_hung.py:load", model=f"{tmp_path}/m/1"))
    functions.infer_timeout = 0.5
    served = ModelStore(functions)
    _, bad, _ = served.predict({"x": np.arange(2.0)}, 2, WatchedCall(left_out=[1]))
    assert [row for row, _ in bad] == [1]
    served.offer(f"{tmp_path}/m/bad", "next")
    assert served.predict({"x": np.zeros(1)}, 1)[2].number == 2
    served.close()


@pytest.mark.fault("jobs", "A candidate that fails as a whole fails no row, and is reported once")
def test_candidate_that_cannot_predict_has_nulls_alone(
    functions: Serving, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "of_candidate.py").write_text(
        "def load(path):\n    return lambda batch: batch['x'][:0 if 'bad' in path else None]\n"
    )
    places = {"model": f"{tmp_path}/m/1", "candidate_path": f"{tmp_path}/m/bad"}
    functions.MergeFrom(Serving(function="of_candidate.py:load", candidate_share=1.0, **places))
    reported: list[str] = []
    served = ModelStore(functions, lambda level, text: reported.append(text))
    for _ in range(2):
        results, bad, _ = served.predict({"x": np.arange(2.0)}, 2)
        assert list(results["y"]) == [0.0, 1.0] and not bad
        assert results["shadow_y"] == [None, None]
    served.close()
    (text,) = reported
    assert text.startswith("candidatePath: the candidate cannot predict: the function load in")


@pytest.mark.tf
def test_missing_models_collect_no_garbage_and_their_errors_are_bounded(
    keyed: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each one collected garbage, which takes 85 ms beside TensorFlow, while all other models
    waited.
    """
    collected: list[int] = []
    monkeypatch.setattr(model_store.gc, "collect", lambda: collected.append(1))
    monkeypatch.setattr(model_store, "_MOST_ERRORS", 10)
    served = keyed()
    keys = ["de", *map(str, range(100, 200))]
    for _ in range(2):
        results, bad, _ = served.predict(keyed_columns(keys), len(keys))
        assert len(bad) == 100 and results["p"][0] == 2.0
    assert not collected and len(served._errors) == 10 and list(served._versions) == ["de"]


@pytest.mark.tf
def test_model_that_was_missing_is_found_later(
    keyed: Make, folder: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = keyed(tmp_path)
    assert served.predict(keyed_columns(["new"]), 1)[1]
    shutil.copytree(folder / "de", tmp_path / "new")
    assert served.predict(keyed_columns(["new"]), 1)[1], "it is not looked for each time"
    monkeypatch.setattr(model_store, "_AGAIN_S", 0.0)
    results, bad, _ = served.predict(keyed_columns(["new"]), 1)
    assert not bad and results["p"].tolist() == [2] and not served._errors


@pytest.mark.tf
def test_default_model_stands_in_for_missing_models_only(keyed: Make) -> None:
    results, bad, _ = keyed(default_model="de").predict(
        keyed_columns(["nowhere", "../de", "7", "empty"]), 4
    )
    assert results["p"] == [2.0, None, 9.0, None] and results["m"] == [
        f"de{models.SERVED}",
        None,
        f"7/1717171717{models.SERVED}",
        None,
    ]
    assert [row for row, _ in bad] == [1, 3]
    with pytest.raises(ValueError, match="there is no model 'nowhere'"):
        keyed(default_model="nowhere")


@pytest.mark.tf
@pytest.mark.fault("network", "A storage that fails is no missing model: its rows are errors")
def test_default_model_does_not_stand_in_where_a_storage_fails(
    keyed: Make, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    for name in ("de", "fr"):
        memory.put_file(str(folder / "fr.zip"), f"/outage/{name}.zip")

    def fails(*arguments: object, **options: object) -> None:
        raise ConnectionError("the storage is down")

    try:
        served = keyed("memory://outage", default_model="fr")
        with monkeypatch.context() as patched:
            patched.setattr(type(memory), "open", fails)
            results, bad, _ = served.predict(keyed_columns(["de", "7"]), 2)
    finally:
        memory.rm("/outage", recursive=True)
    assert results["p"] == [None, 10.0]
    ((row, message),) = bad
    assert row == 0 and message.endswith("cannot be reached: ConnectionError: the storage is down")


@pytest.mark.tf
def test_least_recently_used_models_are_dropped_first(
    keyed: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_store, "_resident_bytes", lambda: 0)
    size = sum(
        path.stat().st_size
        for path in pathlib.Path(models.scaled(2.0)).rglob("*")
        if path.is_file()
    )
    served = keyed(model_cache_bytes=int((size + model_store._OWN_BYTES) * 2.5))

    def loaded() -> list[str]:
        return list(served._versions)

    for key, names in [
        ("de", ["de"]),
        ("7", ["de", "7"]),
        ("de", ["7", "de"]),
        ("fr", ["de", "fr"]),
        ("7", ["fr", "7"]),
    ]:
        results, bad, _ = served.predict(keyed_columns([key]), 1)
        assert (
            not bad
            and results["p"].tolist() == [{"de": 2, "7": 3, "fr": 5}[key]]
            and loaded() == names
        )
    folder = served._versions["fr"].folder.path
    served.predict(keyed_columns(["de"]), 1)
    assert loaded() == ["7", "de"] and not pathlib.Path(folder).exists()


def held_back(
    monkeypatch: pytest.MonkeyPatch, target: Any, method: str
) -> tuple[threading.Event, threading.Event]:
    """Let calls of a method set the first event, and wait for the second one."""
    begun, go_on = threading.Event(), threading.Event()
    original = getattr(target, method)

    def slowly(*arguments: Any) -> Any:
        begun.set()
        assert go_on.wait(2 * DEADLINE_S)
        return original(*arguments)

    monkeypatch.setattr(target, method, slowly)
    return begun, go_on


@pytest.mark.tf
def test_a_model_stays_while_rows_are_in_it(keyed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    served, found = keyed(model_cache_bytes=1), []
    served.predict(keyed_columns(["de"]), 1)
    inside, go_on = held_back(monkeypatch, served._versions["de"].model, "predict_collecting")
    rows = keyed_columns(["de", "de"])
    thread = threading.Thread(target=lambda: found.append(served.predict(rows, 2)))
    thread.start()
    try:
        assert inside.wait(2 * DEADLINE_S)
        for key, factor in (("7", 3), ("fr", 5)):
            assert served.predict(keyed_columns([key]), 1)[0]["p"].tolist() == [factor]
        assert list(served._versions) == ["de", "fr"], "7 has no rows"
    finally:
        go_on.set()
        thread.join()
    ((results, bad, _),) = found
    assert not bad and results["p"].tolist() == [2, 4]
    served.predict(keyed_columns(["7"]), 1)
    assert list(served._versions) == ["7"], "the others have no rows any more"


@pytest.mark.long
@pytest.mark.tf
def test_many_calls_of_a_small_store_find_their_models(keyed: Make) -> None:
    served = keyed(model_cache_bytes=1)
    keys, wrong = ["de", "7", "fr"] * 2, []

    def predict() -> None:
        for _ in range(3):
            results, bad, _ = served.predict(keyed_columns(keys), len(keys))
            expected = [[2, 3, 5][row % 3] * (row + 1) for row in range(len(keys))]
            wrong.extend(bad or ([] if results["p"].tolist() == expected else [results["p"]]))

    threads = [threading.Thread(target=predict) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(served._versions) <= 3


@pytest.mark.tf
def test_loaded_models_predict_while_another_is_loaded(
    keyed: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = keyed()
    made.predict(keyed_columns([b"de"]), 1)
    started, go_on = held_back(monkeypatch, made, "_loaded")
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(made.predict(keyed_columns([b"fr"]), 1)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    assert started.wait(2 * DEADLINE_S)
    try:
        assert made.predict(keyed_columns([b"de"]), 1)[0]["p"].tolist() == [2]
    finally:
        go_on.set()
        for thread in threads:
            thread.join()
    assert [results["p"].tolist() for results, _, _ in found] == [[5], [5]]
    assert len(made.loaded) == 2, "the two calls loaded it once"  # type: ignore[attr-defined]


@pytest.mark.tf
def test_archive_of_keyed_models_is_unpacked_and_removed_on_close(
    keyed: Make, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    served = keyed(shutil.make_archive(str(tmp_path / "all"), "zip", folder))
    results, bad, _ = served.predict(keyed_columns(["fr", "7"]), 2)
    assert not bad and results["p"].tolist() == [5, 6]
    assert results["m"] == [f"fr{models.SERVED}", f"7/1717171717{models.SERVED}"]
    unpacked = served._place
    served.close()
    assert not pathlib.Path(unpacked).exists()


@pytest.mark.tf
def test_keyed_models_are_fetched_from_an_address(keyed: Make, folder: pathlib.Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(folder / "de"), "/keyed/de", recursive=True)
    memory.put_file(str(folder / "fr.zip"), "/keyed/fr.zip")
    try:
        results, bad, _ = keyed("memory://keyed").predict(keyed_columns(["fr", "de", "7"]), 3)
    finally:
        memory.rm("/keyed", recursive=True)
    assert (
        results["p"] == [5.0, 4.0, None]
        and "there is no model '7' in memory://keyed: " in bad[0][1]
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"candidate_path": "/no/model"}, "candidatePath: "),
        ({"model_key_col": "k", "default_model": "none"}, "there is no model 'none'"),
    ],
)
def test_store_that_cannot_be_opened_leaves_no_files(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    expected: str,
) -> None:
    (tmp_path / "code").mkdir()
    code = "def load(folder):\n    return lambda batch: batch\n"
    (tmp_path / "code" / "scaling_of_a_store.py").write_text(code)
    packed = shutil.make_archive(str(tmp_path / "m"), "zip", tmp_path / "code")
    (tmp_path / "places").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "places"))
    monkeypatch.setattr(sys, "path", sys.path[:])  # the function's folder is put there
    serving = Serving(
        model=packed,
        function="scaling_of_a_store.py:load",
        function_folder=str(tmp_path / "code"),
        input_columns=[TableColumn(name=name, type="STRING") for name in ("x", "k")],
        output_columns=[TableColumn(name="p", type="DOUBLE")],
        **settings,  # type: ignore[arg-type]
    )
    with pytest.raises((ModelError, ServingError), match=expected):
        ModelStore(serving)
    assert not os.listdir(tmp_path / "places")
