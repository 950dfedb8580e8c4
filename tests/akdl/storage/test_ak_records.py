"""Model tables in .ak files; other tables are in the tests of `operators/alink/ak_file.py`."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from akdl.storage.ak_records import META, is_ak_file, model_rows
from akdl.storage.archive import ArchiveError
from bridge.schema import Schema
from operators.alink.ak_file import AkWriter


def written(path: Path, columns: str, rows: Iterable[tuple[Any, ...]]) -> str:
    with open(path, "wb") as file:
        writer = AkWriter(file, Schema.parse(columns))
        for row in rows:
            writer.write(row)
        writer.close()
    return str(path)


def test_rows_of_a_model_table_come_back_without_other_columns(tmp_path: Path) -> None:
    rows = [(0, "modèle.zip"), (2**40, "x" * (1 << 20)), (3, "")]
    path = written(tmp_path / "model.ak", "model_id BIGINT, model_info STRING", rows)
    assert is_ak_file(path) and list(model_rows(path)) == rows
    more = ", ".join(f"c{number} DOUBLE" for number in range(8))
    path = written(
        tmp_path / "more",
        f"model_id BIGINT, model_info STRING, {more}",
        [(*row, *[None] * 7, 0.5) for row in rows],
    )
    assert list(model_rows(path)) == rows


@pytest.mark.parametrize(
    ("columns", "row", "message"),
    [
        (
            "a BIGINT, b STRING",
            (1, "x"),
            "expected a model table with the columns model_id, model_info, got a, b; a pipeline",
        ),
        (
            "model_id BIGINT, model_info STRING",
            (1, None),
            "data: a row has no model_id or no model_info",
        ),
        (
            "model_id BIGINT, model_info STRING",
            (None, "x"),
            "data: a row has no model_id or no model_info",
        ),
    ],
)
def test_tables_other_than_model_tables_are_refused(
    tmp_path: Path, columns: str, row: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ArchiveError, match=message):
        list(model_rows(written(tmp_path / "t.ak", columns, [row])))


@pytest.mark.parametrize(
    "meta", ["", "{}", "[]", '{"schemaStr": 1}', '{"schemaStr": "model_id BIGINT,"}']
)
def test_a_damaged_schema_is_named(tmp_path: Path, meta: str) -> None:
    with zipfile.ZipFile(tmp_path / "t.ak", "w") as file:
        file.writestr(META, meta)
    with pytest.raises(ArchiveError, match="alink_meta.json has no valid schemaStr"):
        list(model_rows(str(tmp_path / "t.ak")))


@pytest.mark.parametrize(
    "data",
    [b"XYZ", b"ALK", b"ALK\0\0\x05\0\0", b"ALK\0\0\x02\0\0", b"ALK\0\0\x0a" + bytes(9) + b"\xff"],
)
def test_damaged_records_are_named(tmp_path: Path, data: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "t.ak", "w") as file:
        file.writestr(META, '{"schemaStr": "model_id BIGINT,model_info VARCHAR"}')
        if data != b"ALK":
            file.writestr("data", data)
    with pytest.raises(ArchiveError):
        list(model_rows(str(tmp_path / "t.ak")))
