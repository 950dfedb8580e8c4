"""Shapes and types of ARRAY columns, as scripts of Alink read them."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from akdl.rows.file_rows import FileRows
from akdl.runner.context import first_shape, write_tensor_shapes
from akdl.testing import table_columns
from tests.support.random_rows import chunk_of, ended

TYPES = {
    "x": "ARRAY<DOUBLE>",
    "n": "ARRAY<BIGINT>",
    "words": "ARRAY<STRING>",
    "days": "ARRAY<DATE>",
    "label": "BIGINT",
}
CELLS = {
    "x": [None, [0.5, 1.5], [1.0]],
    "n": [[1, 2, 3]] * 3,
    "words": [[], None, None],
    "days": [[1]] * 3,
    "label": [1, 2, 3],
}


def rows(
    folder: pathlib.Path, cells: dict[str, Any] | None = CELLS, types: dict[str, str] = TYPES
) -> FileRows:
    folder.mkdir()
    return FileRows(
        str(folder), ended([chunk_of(cells, types)] if cells else []), table_columns(types)
    )


def test_files_hold_the_first_arrays(tmp_path: pathlib.Path) -> None:
    write_tensor_shapes(rows(tmp_path / "rows"), table_columns(TYPES), str(tmp_path))
    assert json.loads((tmp_path / "tensor_shapes.txt").read_text()) == {
        "x": [2],
        "n": [3],
        "words": [0],
    }
    assert json.loads((tmp_path / "tensor_types.txt").read_text()) == {
        "x": "double",
        "n": "long",
        "words": "string",
    }
    assert first_shape(rows(tmp_path / "again"), "x") == [2]


@pytest.mark.parametrize(("cells", "types"), [(None, TYPES), ({"label": [1]}, {"label": "BIGINT"})])
def test_no_files_without_rows_or_arrays(
    tmp_path: pathlib.Path, cells: dict[str, list[int]] | None, types: dict[str, str]
) -> None:
    write_tensor_shapes(rows(tmp_path / "rows", cells, types), table_columns(types), str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]
