"""Rows of models that a checkpoint keeps, and which one of several on a host lets its model process
go over to another model.
"""

from __future__ import annotations

import os
import pathlib
import threading
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from akdl.storage.model_archive import pack
from bridge.codec.ipc import write_batch
from bridge.exceptions import TaskError
from bridge.flink.elements import Element
from bridge.serving import model_delivery
from bridge.serving.model_delivery import COLLECT_KEY, Collect, SendPlace, take_turn
from tests.support.deadline import DEADLINE_S

KEYS = [7, 3, 5]  # of the subtasks that deliver
Rows = list[tuple[int, str]]


class MapState(dict[int, Any]):
    """Stands for a map state of Flink."""

    def put(self, key: int, value: Any) -> None:
        self[key] = value

    def remove(self, key: int) -> None:
        del self[key]


@pytest.fixture
def model(tmp_path: pathlib.Path) -> Rows:
    """The rows of one model."""
    (tmp_path / "saved_model.pb").write_bytes(os.urandom(3_000_000))
    return list(pack(str(tmp_path)))


@pytest.fixture
def attempt(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the function of a new attempt, which goes on from a state."""
    folder = str(tmp_path_factory.mktemp("process"))
    monkeypatch.setattr(
        model_delivery, "model_process", lambda settings: SimpleNamespace(folder=folder)
    )

    def begin(state: MapState) -> Collect:
        collect = Collect(SimpleNamespace(process=SimpleNamespace(operator="TestOp")), True, KEYS)
        collect.open(SimpleNamespace(get_map_state=lambda descriptor: state))
        return collect

    return begin


def chunk(rows: Rows) -> Any:
    columns = {"number": [number for number, _ in rows], "text": [text for _, text in rows]}
    empty = [None] * len(rows)
    table = pa.RecordBatch.from_pydict(
        {**columns, "model": pa.array(empty, pa.string()), "rows": pa.array(empty, pa.int64())}
    )
    return Element.CHUNK, 0, len(rows), write_batch(table)


def started(collect: Collect, places: str = "aaa") -> list[Any]:
    """What it yields when the job starts and each subtask has told its place."""
    elements = [(Element.START, number, 0, b"") for number in range(len(KEYS) + 1)]
    elements += [
        (Element.PLACE, number, 0, place.encode()) for number, place in enumerate(places, 1)
    ]
    return [row for element in elements for row in collect.process_element(element, None)]


def names(found: Iterable[Any]) -> list[str]:
    """The models of pieces, in their order."""
    return list(dict.fromkeys(piece[0] for _, piece in found))


def test_a_checkpoint_keeps_the_latest_model_and_the_rows_of_the_next(
    model: Rows, attempt: Any
) -> None:
    state = MapState()
    first = attempt(state)
    assert started(first) == []
    assert names(first.process_element(chunk([*model, *model, *model[:2]]), None)) == [
        "number 1 of the stream", "number 2 of the stream",
    ]  # fmt: skip
    assert sorted(state) == list(range(len(model), 2 * len(model) + 2))

    second = attempt(state)
    assert names(started(second)) == ["number 1 of the stream"]
    assert sorted(state) == list(range(len(model), 2 * len(model) + 2))
    assert names(second.process_element(chunk(model[2:]), None)) == ["number 2 of the stream"]
    assert sorted(state) == list(range(2 * len(model), 3 * len(model)))


def test_model_is_sent_to_one_subtask_of_each_host_when_all_places_are_known(
    model: Rows, attempt: Any
) -> None:
    collect = attempt(MapState())
    early = list(collect.process_element(chunk(model), None))
    assert early == [], "nobody knows where to"
    found = started(collect, "bab")
    pieces = [piece for key, piece in found if key == KEYS[0]]
    assert [key for key, _ in found] == [KEYS[0], KEYS[1]] * len(pieces)
    assert [piece for key, piece in found if key == KEYS[1]] == pieces
    assert [(number, last) for _, number, last, _ in pieces] == [
        (n + 1, len(model) - 1) for n in range(len(model) - 1)
    ]
    later = list(collect.process_element(chunk(model), None))
    assert [key for key, _ in later] == [key for key, _ in found]


def test_the_start_of_another_subtask_does_not_touch_the_state(attempt: Any) -> None:
    """Flink has set the key of that subtask, under which there are no rows."""
    state = MapState()
    state.keys = None  # type: ignore[method-assign]
    collect = attempt(state)
    assert list(collect.process_element((Element.START, 2, 0, b""), None)) == []
    with pytest.raises(TypeError):
        list(collect.process_element((Element.START, 0, 0, b""), None))


def test_subtask_reports_its_place_once() -> None:
    here, again = SendPlace(), SendPlace()
    found = []
    for tells in (here, again):
        tells.open(None)
        for number in (0, 2, 2):
            found += tells.process_element((KEYS[1], (Element.START, number, 0, b"")), None)
    (key, (kind, number, _, place)), other = found
    assert (
        (key, kind, number) == (COLLECT_KEY, Element.PLACE, 2) and place and other[1][3] == place
    ), "they share a model process"


def test_only_one_delivery_at_a_time_takes_its_turn(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "delivery")
    first = take_turn(path, 10)
    assert first is not None and take_turn(path, 10) is None
    os.close(first)
    second = take_turn(path, 10)
    assert second is not None
    os.close(second)


def test_the_end_of_an_earlier_attempt_is_waited_for(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "delivery")
    earlier = take_turn(path, 10)
    assert earlier is not None
    found = []
    waiting = threading.Thread(target=lambda: found.append(take_turn(path, 9)))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    os.close(earlier)
    waiting.join(DEADLINE_S)
    (later,) = found
    assert later is not None and take_turn(path, 9) is None
    os.close(later)


def test_an_earlier_attempt_that_does_not_end_is_an_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_delivery, "EARLIER_S", 0.1)
    path = str(tmp_path / "delivery")
    earlier = take_turn(path, 0)
    assert earlier is not None
    with pytest.raises(TaskError, match="still locked by an earlier attempt"):
        take_turn(path, 1)
    os.close(earlier)
