"""A folder of consecutive models: what counts as one, which is the newest, and what becomes of
those that are none.
"""

from __future__ import annotations

import logging
import os
import pathlib
import threading
import time
from typing import Any

import pytest

from akdl.serving import model_stream
from akdl.serving.loaded_model import ServingError
from akdl.serving.model_stream import KEPT, ModelFolderWatch, learnt_by, publish, published
from akdl.storage.model_forms import ModelError
from tests.support.deadline import DEADLINE_S


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_stream, "SETTLE_S", 0.0)


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now = time.monotonic() + seconds
    monkeypatch.setattr(time, "monotonic", lambda: now)


def export(folder: pathlib.Path, content: str = "graph") -> pathlib.Path:
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_text(content)
    (folder / "variables" / "variables.index").write_text("1")
    return folder


class Watch:
    """A watch that takes what has `graph` in it."""

    def __init__(self, folder: pathlib.Path, start_ms: int = 0) -> None:
        self.taken: list[str] = []
        self.tried: list[str] = []
        self.said: list[tuple[int, str]] = []
        self.watch = ModelFolderWatch(
            str(folder), start_ms, self.offer, lambda level, text: self.said.append((level, text))
        )

    def offer(self, path: str, name: str) -> None:
        self.tried.append(name)
        file = pathlib.Path(path, "saved_model.pb")
        content = file.read_text() if file.is_file() else "nothing"
        if content == "misfit":
            raise ServingError("no input x")
        if content != "graph":
            raise ModelError(f"found {content}")
        self.taken.append(name)

    def look(self) -> list[str]:
        """Look, and return what was taken."""
        before = len(self.taken)
        self.watch.look()
        return self.taken[before:]


def test_published_models_are_complete_and_the_last_one_is_the_newest(
    tmp_path: pathlib.Path,
) -> None:
    source, target = export(tmp_path / "export"), tmp_path / "models"
    (target / "99999999999").mkdir(parents=True)  # a name without a time
    paths = [publish(str(source), str(target)) for _ in range(5)]
    assert paths == sorted(paths) and len(set(paths)) == 5
    assert sorted(os.listdir(target)) == sorted(["99999999999", *map(os.path.basename, paths)])
    assert published(str(target))[0].path == paths[-1]
    assert sorted(os.listdir(paths[0])) == ["saved_model.pb", "variables"]
    with pytest.raises(ModelError, match="expected a SavedModel"):
        publish(str(target / "99999999999"), str(target))
    assert len(os.listdir(target)) == 6


def test_published_models_carry_their_notes_and_the_oldest_are_removed(
    tmp_path: pathlib.Path,
) -> None:
    source, target = export(tmp_path / "export"), tmp_path / "models"
    others = [publish(str(source), str(target)) for _ in range(2)]
    paths = [publish(str(source), str(target), f"rows={number}") for number in range(KEPT + 3)]
    assert sorted(os.listdir(target)) == sorted(map(os.path.basename, others + paths[3:]))
    assert [learnt_by(path) for path in (others[0], *paths[-2:])] == [
        "",
        f"rows={KEPT + 1}",
        f"rows={KEPT + 2}",
    ]


def test_an_onnx_model_is_published_with_its_weights(tmp_path: pathlib.Path) -> None:
    for name in ("m.onnx", "m.onnx.data", "other"):
        (tmp_path / name).touch()
    path = publish(str(tmp_path / "m.onnx"), str(tmp_path / "models"))
    assert sorted(os.listdir(path)) == ["m.onnx", "m.onnx.data"]


def test_publish_removes_leftovers_of_killed_processes_but_no_copy_under_way(
    tmp_path: pathlib.Path,
) -> None:
    source, target = export(tmp_path / "export"), tmp_path / "models"
    for name in ("killed", "copying"):
        work = target / f".publish-{name}"
        part = export(work / "model") / "variables" / "variables.index"
        for path in (part, part.parent, work / "model" / "saved_model.pb", work / "model", work):
            # The last file of a large model has been written for more than an hour.
            if name == "killed" or path != part:
                os.utime(path, (0, 0))
    newest = publish(str(source), str(target))
    assert sorted(os.listdir(target)) == [".publish-copying", os.path.basename(newest)]


def test_concurrent_publications_get_different_names(tmp_path: pathlib.Path) -> None:
    source = export(tmp_path / "export")
    paths: list[str] = []
    threads = [
        threading.Thread(
            target=lambda: paths.extend(
                publish(str(source), str(tmp_path / "m")) for _ in range(10)
            )
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert len(set(paths)) == 40 and sorted(os.listdir(tmp_path / "m")) == sorted(
        map(os.path.basename, paths)
    )


def test_names_of_models_are_read_as_times(tmp_path: pathlib.Path) -> None:
    for name in ("1700000001", "1700000000999.zip", "20231114000000000", "20231116000000.tar.gz", ".1800000000", "temp-1800000000",
                 "_1800000000", "1800000000.part"):  # fmt: skip
        (tmp_path / name).mkdir()
    (tmp_path / "1800000000").write_text("no archive")
    (tmp_path / "3").mkdir()
    os.utime(tmp_path / "3", (1600000000, 1600000000))
    found = published(str(tmp_path))
    assert [model.name for model in found] == [
        "20231116000000.tar.gz", "1700000001", "1700000000999.zip", "20231114000000000", "3",
    ]  # fmt: skip
    assert found[1].time_ms == 1700000001000 and found[-1].time_ms == 1600000000000


def test_newest_model_is_taken_once_and_older_ones_never(tmp_path: pathlib.Path) -> None:
    watch = Watch(tmp_path)
    assert watch.look() == []
    export(tmp_path / "1700000001")
    export(tmp_path / "1700000003")
    assert watch.look() == ["1700000003"]
    export(tmp_path / "1700000002")
    assert watch.look() == []
    export(tmp_path / "1700000004")
    assert watch.look() == ["1700000004"]
    assert watch.said == []


def test_models_from_before_the_start_do_not_count(tmp_path: pathlib.Path) -> None:
    watch = Watch(tmp_path, 1700000001500)
    export(tmp_path / "1700000000999")
    assert watch.look() == []
    export(tmp_path / "1700000001")  # of the same second
    assert watch.look() == ["1700000001"]


@pytest.mark.fault(
    "data", "A broken newer model leaves the old one in use, and is tried again when it changes"
)
def test_broken_model_is_tried_again_when_its_files_change(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(tmp_path)
    export(tmp_path / "1700000001")
    broken = export(tmp_path / "1700000002", "half") / "saved_model.pb"
    assert watch.look() == ["1700000001"], "the next newest"
    assert watch.look() == [] and watch.tried == ["1700000002", "1700000001", "1700000002"]
    assert watch.look() == [] and len(watch.tried) == 3, "nothing has changed"
    (level, text), *_ = watch.said
    assert level == logging.WARNING and str(broken.parent) in text and "found half" in text
    broken.write_text("graph")
    assert watch.look() == ["1700000002"]
    (tmp_path / "1700000003").mkdir()
    assert watch.look() == []
    later(monkeypatch, 61)
    said = len(watch.said)
    assert watch.look() == [] and watch.tried[-1] == "1700000003", (
        "after a while also unchanged ones"
    )
    assert len(watch.said) == said, "without saying the same again"


def test_model_that_does_not_fit_is_not_tried_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(tmp_path)
    export(tmp_path / "1700000001", "misfit")
    assert watch.look() == []
    later(monkeypatch, 3600)
    assert watch.look() == [] and watch.tried == ["1700000001"]
    assert watch.said == [
        (logging.ERROR, f"the model {tmp_path / '1700000001'} is refused: no input x")
    ]


def test_model_that_is_still_being_written_is_not_taken(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(tmp_path)
    model = export(tmp_path / "1700000001")
    left = [2]

    def write_more(seconds: float) -> bool:
        if left[0]:
            left[0] -= 1
            (model / f"more{left[0]}").write_text("x")
        return False

    monkeypatch.setattr(watch.watch._ended, "wait", write_more)
    assert [watch.look(), watch.look(), watch.look()] == [[], [], ["1700000001"]]
    assert watch.said == []


def test_missing_folder_of_models_is_warned_of_once_and_watched(tmp_path: pathlib.Path) -> None:
    watch: Any = Watch(tmp_path / "later")
    assert watch.look() == [] and watch.look() == []
    assert [level for level, _ in watch.said] == [logging.WARNING]
    export(tmp_path / "later" / "1700000001")
    assert watch.look() == ["1700000001"]
