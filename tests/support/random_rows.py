"""Rows of all types as plain cells and as the message `Rows`, made by other means than the code
under test.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from akdl.wire import Chunk, Column, EndOfInput, Rows
from akdl.wire.cells import Cells, fill_column

_ELEMENTS = {
    "BOOLEAN": "?", "TINYINT": "i1", "SMALLINT": "i2", "INT": "i4", "BIGINT": "i8", "FLOAT": "f4", "DOUBLE": "f8", "DATE": "i4",
    "TIME(3)": "i4", "TIMESTAMP(6)": "i8", "TIMESTAMP_LTZ(3)": "i8", "STRING": "", "BYTES": "", "DECIMAL(10, 2)": "",
}  # fmt: skip
TYPES = {
    f"C{n}": sql
    for n, sql in enumerate([*_ELEMENTS, *(f"ARRAY<{element}>" for element in _ELEMENTS)])
}
"""A column of each type."""


def dtype_of(sql_type: str) -> tuple[bool, str]:
    """Return whether it is an ARRAY, and the type of numbers in the message, "" for bytes."""
    bare = sql_type.replace(" NOT NULL", "")
    is_array = bare.startswith("ARRAY<")
    return is_array, _ELEMENTS.get(bare[6:-1] if is_array else bare, "")


def random_cells(
    types: Mapping[str, str], size: int, null_share: float, random: np.random.RandomState
) -> dict[str, list[Any]]:
    """Return cells by column: numbers of all widths and signs, bytes of all lengths, lists, and
    None for so many of them.
    """
    found: dict[str, list[Any]] = {}
    for name, sql_type in types.items():
        is_array, dtype = dtype_of(sql_type)
        one_length = random.rand() < 0.3
        found[name] = []
        for _ in range(size):
            if random.rand() < null_share:
                found[name].append(None)
            elif is_array:
                found[name].append(
                    [
                        _value(dtype, one_length, random)
                        for _ in range(3 if one_length else random.randint(0, 30))
                    ]
                )
            else:
                found[name].append(_value(dtype, one_length, random))
    return found


def rows_of(cells: Mapping[str, Sequence[Any]], types: Mapping[str, str]) -> Rows:
    """Return cells as the Flink side sends them."""
    columns = [
        fill_column(Column(), name, cells_of(values, types[name])) for name, values in cells.items()
    ]
    return Rows(rows=len(next(iter(cells.values()))), columns=columns)


def cells_of(values: Sequence[Any], sql_type: str) -> Cells:
    """Return cells of one column as arrays."""
    is_array, dtype = dtype_of(sql_type)
    valid = np.array([value is not None for value in values], bool)
    cell_offsets = None
    if is_array:
        cell_offsets = np.cumsum([0, *(len(value or []) for value in values)]).astype("<i4")
        values = [each for value in values if value is not None for each in value]
    if dtype:
        return Cells(
            np.array([0 if value is None else value for value in values], dtype),
            valid,
            cell_offsets,
        )
    data = [b"" if value is None else value for value in values]
    offsets = np.cumsum([0, *map(len, data)]).astype("<i4")
    return Cells(np.frombuffer(b"".join(data), np.uint8), valid, cell_offsets, offsets)


def chunk_of(cells: Mapping[str, Sequence[Any]], types: Mapping[str, str], input: int = 0) -> Chunk:
    """Return rows as they come over the process line."""
    rows = rows_of(cells, types)
    return Chunk(rows=rows.rows, columns=rows.SerializeToString(), input=input)


def ended(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return chunks with the end mark that goes with them."""
    checksum = 0
    for each in chunks:
        checksum = zlib.crc32(each.columns, checksum)
    return [
        *chunks,
        Chunk(
            end=EndOfInput(
                rows=sum(each.rows for each in chunks if not each.input), checksum=checksum
            )
        ),
    ]


def _value(dtype: str, one_length: bool, random: np.random.RandomState) -> Any:
    if not dtype:
        return random.bytes(4 if one_length else int(2 ** (random.rand() * 8)) - 1)
    if dtype == "?":
        return bool(random.randint(2))
    if dtype[0] == "f":
        value = float(random.standard_normal() * 10.0 ** random.randint(-30, 30))
        return float(np.float32(value)) if dtype == "f4" else value
    bits = int(random.randint(1, 8 * int(dtype[1])))
    return (
        int(random.randint(-(2**bits), 2**bits, dtype=np.int64))
        if bits < 63
        else int(random.randint(-(2**63), 2**63 - 1))
    )
