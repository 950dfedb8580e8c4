"""`tensor_shapes.txt` and `tensor_types.txt` in the work folder.

Scripts written for Alink read them.
"""

from __future__ import annotations

import json
import os
from typing import Any

from akdl.wire import Rows, TableColumns
from akdl.wire.cells import read_cells
from akdl.wire.column_type import Kind, type_of

SHAPES, TYPES = "tensor_shapes.txt", "tensor_types.txt"

_NAMES = {
    Kind.BOOLEAN: "boolean",
    Kind.TINYINT: "byte",
    Kind.SMALLINT: "int",
    Kind.INT: "int",
    Kind.BIGINT: "long",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.STRING: "string",
}
"""Names of types that `akdl.engine.inputs.dtype_str_map` knows."""


def write_tensor_shapes(rows: Any, columns: TableColumns, work_dir: str) -> None:
    # Alink's scripts read the shape of a tensor column from a file, before any row. A column has no
    # declared shape, so this waits for the first rows and takes the shape of the first valid cell.
    types = {
        column.name: _NAMES.get(type_of(column).kind)
        for column in columns
        if type_of(column).is_array
    }
    # Alink has no name for the other types, so their columns are left out of both files.
    types = {name: dtype for name, dtype in types.items() if dtype is not None}
    first = rows.first_columns() if types else None
    if first is None:
        return
    shapes = {name: shape for name, shape in _shapes(first).items() if name in types}
    for file_name, found in ((SHAPES, shapes), (TYPES, {name: types[name] for name in shapes})):
        with open(os.path.join(work_dir, file_name), "w", encoding="utf-8") as file:
            json.dump(found, file)


def first_shape(rows: Any, name: str) -> list[int] | None:
    """Wait for the first rows and return the shape of the first valid cell of an ARRAY column.

    The result is None without one.
    """
    first = rows.first_columns()
    return None if first is None else _shapes(first).get(name)


def _shapes(rows: Rows) -> dict[str, list[int]]:
    shapes: dict[str, list[int]] = {}
    for column in rows.columns:
        cells = read_cells(column, rows.rows)
        # Only an ARRAY column has offsets of cells.
        if cells.cell_offsets is None:
            continue
        # `argmax` finds the first True; it is 0 as well if all cells are null, hence the second
        # test.
        first = 0 if cells.valid is None else int(cells.valid.argmax())
        if cells.valid is None or cells.valid[first]:
            shapes[column.name] = [int(cells.cell_offsets[first + 1] - cells.cell_offsets[first])]
    return shapes
