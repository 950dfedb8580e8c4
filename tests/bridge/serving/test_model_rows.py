"""Rows of consecutive models become whole models, whatever their order, or one clear error."""

from __future__ import annotations

import io
import os
import pathlib
import random
import zipfile

import pytest

from akdl.storage.model_archive import CHUNK_BYTES, pack
from bridge.serving.model_rows import DamagedModel, Model, ModelRow, ModelRows


@pytest.fixture
def models(tmp_path: pathlib.Path) -> ModelRows:
    (tmp_path / "pieces").mkdir()
    return ModelRows(str(tmp_path / "pieces"))


def rows_of(tmp_path: pathlib.Path, seed: int, size: int = 3_000_000) -> list[ModelRow]:
    folder = tmp_path / f"export{seed}"
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(random.Random(seed).randbytes(size))
    return [ModelRow(number, text) for number, text in pack(str(folder))]


def added(models: ModelRows, rows: list[ModelRow]) -> list[bytes]:
    """Return the zip files of what has become whole."""
    found = [model for model in map(models.add, rows) if model is not None]
    return [content(model) for model in found]


def content(model: Model) -> bytes:
    archive = b"".join(model.pieces())
    model.remove()
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        assert file.testzip() is None
        return file.read("saved_model.pb")


def stamped(rows: list[ModelRow], model: str) -> list[ModelRow]:
    return [ModelRow(row.number, row.text, model, len(rows)) for row in rows]


def test_models_are_assembled_from_rows_in_any_order(
    tmp_path: pathlib.Path, models: ModelRows
) -> None:
    for seed in range(4):
        rows = rows_of(tmp_path, seed)
        assert len(rows) > 3
        random.Random(seed).shuffle(rows)
        assert added(models, rows) == [random.Random(seed).randbytes(3_000_000)]
    assert os.listdir(tmp_path / "pieces") == []


def test_models_of_any_size_are_assembled(tmp_path: pathlib.Path, models: ModelRows) -> None:
    spare = len(b"".join(added_archive(tmp_path)))
    for seed, total in enumerate((CHUNK_BYTES, CHUNK_BYTES + 1, CHUNK_BYTES + 21, 2 * CHUNK_BYTES)):
        size = total - spare + 10_000
        rows = rows_of(tmp_path, seed, size)
        assert added(models, rows) == [random.Random(seed).randbytes(size)]


def added_archive(tmp_path: pathlib.Path) -> list[bytes]:
    """The pieces of a model of 10,000 bytes."""
    (tmp_path / "first").mkdir()
    rows = rows_of(tmp_path / "first", 9, 10_000)
    path = tmp_path / "first" / "model.zip"
    path.touch()
    model = Model("m", str(path))
    for row in rows:
        model.add(row)
    return list(model.pieces())


def test_mixed_rows_of_models_are_assembled_by_their_stamps(
    tmp_path: pathlib.Path, models: ModelRows
) -> None:
    first, second, third = (
        stamped(rows_of(tmp_path, seed), f"2024-01-0{seed + 1}") for seed in range(3)
    )
    mixed = first + second[:-1] + third[:-1]
    random.Random(1).shuffle(mixed)
    assert added(models, mixed) == [random.Random(0).randbytes(3_000_000)]
    assert added(models, third[:2]) == [], "again, as a source may bring them"
    assert added(models, third[-1:]) == [random.Random(2).randbytes(3_000_000)]
    assert added(models, second) == [], "too late: a newer one was whole before"
    assert os.listdir(tmp_path / "pieces") == []


@pytest.mark.fault(
    "data", "A model of a stream that lost a row is an error when the next one begins"
)
def test_incomplete_model_is_an_error_when_the_next_one_begins(
    tmp_path: pathlib.Path, models: ModelRows
) -> None:
    first, second = rows_of(tmp_path, 0), rows_of(tmp_path, 1)
    assert added(models, first[:1] + first[2:]) == []
    with pytest.raises(
        DamagedModel,
        match="number 1 of the stream is incomplete when the next one begins: model_id 1 at",
    ):
        models.add(second[0])
    assert added(models, second[1:]) == [random.Random(1).randbytes(3_000_000)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ModelRow(2, "no base64!"), r"is damaged: model_id 2 has 'no base64!'"),
        (ModelRow(2, None), r"it has a row with model_id 2 and None"),
        (ModelRow(None, "eA=="), r"it has a row with model_id None and 'eA=='"),
        (ModelRow(-1, "eA=="), r"it has a row with model_id -1"),
        (
            ModelRow(0, '[{"name": "x"}]'),
            r"expected the name of a zip file at model_id 0, got '\[\{",
        ),
    ],
)
def test_damaged_row_of_a_model_drops_that_model_alone(
    tmp_path: pathlib.Path, models: ModelRows, row: ModelRow, message: str
) -> None:
    first, second = rows_of(tmp_path, 0), rows_of(tmp_path, 1)
    begin = [] if row.number == 0 else first[:2]
    assert added(models, begin) == []
    with pytest.raises(DamagedModel, match=message):
        models.add(row)
    assert added(models, first[max(len(begin), 1) + 1 :]) == [], (
        "the rest of it is dropped without another word"
    )
    assert added(models, second) == [random.Random(1).randbytes(3_000_000)]


def test_row_number_beyond_the_count_is_refused(tmp_path: pathlib.Path, models: ModelRows) -> None:
    rows = stamped(rows_of(tmp_path, 0), "1")
    with pytest.raises(DamagedModel, match="1 is not a model: it has a row with model_id 9"):
        models.add(ModelRow(9, rows[1].text, "1", 4))
    assert added(models, rows) == []


def test_places_of_waiting_rows_are_known(tmp_path: pathlib.Path, models: ModelRows) -> None:
    rows = [
        ModelRow(row.number, row.text, place=place)
        for place, row in enumerate(rows_of(tmp_path, 0), 7)
    ]
    added(models, rows[:2])
    assert models.places == {7, 8}
    added(models, rows[2:])
    assert models.places == set()
