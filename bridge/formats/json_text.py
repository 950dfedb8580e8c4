"""Files of JSON, an object per line. Pure, but for the reader that opens a file.

pyarrow parses the lines. Before it, the lines are checked, because a deep nesting ends its process;
after it, the cells are, because it makes integers beyond BIGINT a DOUBLE, drops offsets of times,
and leaves bytes in base64. An error names the line and the column of the first cell that is wrong.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.types as pt

from akdl.storage.limits import TEXT, LimitError
from bridge.codec.first_wrong import first_wrong
from bridge.exceptions import RowError
from bridge.formats.columnar import Batches, UngroupedReader, open_text, slices
from bridge.formats.file_columns import (
    REMEDY,
    FileColumn,
    arrow_schema_of,
    inexact,
    is_inexact,
    not_utf8,
    with_room,
)

_BLOCK_BYTES = 1 << 20
# pyarrow's reader recurses, and ends the process at some thousand levels.
_MOST_LEVELS = 100
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_OTHER_THAN_BRACKETS = re.compile(rb'"[^"]*"?|[^]["{}]+')
# A DOUBLE may lose digits from 2**53 on, which has 16 digits.
_LONG = re.compile(rb"\d{16}")
_TWICE = re.compile(r"Column\(/(.*)\) was specified twice")
_ROW = re.compile(r"^JSON parse error: | in row \d+$")
_MOST_SHOWN = 60
_ERRORS = (pa.ArrowException, ValueError)


class JsonReader(UngroupedReader):
    """A file with an object per line."""

    def __init__(
        self, path: str, columns: Sequence[FileColumn], others: str, _: object = None
    ) -> None:
        self._path = path
        self._others = others
        with open_text(path) as (text, self.size, self._size):
            line, block = next(blocks(text), (1, b""))
        self._first = (block.count(b"\n") + 1, max(1, len(block)))
        self._columns = columns
        self.schema = arrow_schema_of(columns)
        if others == "infer" and block:
            self.schema = schema_of(line, block, columns)

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Batches:
        wanted = [column for column in self._columns if column.name in columns]
        # A file may repeat the columns that are read from names of folders, in any type.
        rest = {column.name for column in self._columns} - set(columns)
        with open_text(self._path) as (text, _, _):
            for line, block in blocks(text):
                repeated = []
                if self._others == "error" and any(f'"{name}"'.encode() in block for name in rest):
                    found = rows_of(line, block, wanted, "infer").schema
                    repeated = [
                        FileColumn(field.name, str(field.type), field.type)
                        for field in found
                        if field.name in rest
                    ]
                table = rows_of(line, block, [*wanted, *repeated], self._others)
                yield from slices(table.select(columns).combine_chunks().to_batches(), rows)


def blocks(text: pa.NativeFile) -> Iterator[tuple[int, bytes]]:
    """Yield lines of about 1 MB, and the number of the first of them."""
    line = 1
    pieces = list[bytes]()
    size = 0
    # Some programs begin a file of UTF-8 with a byte order mark, which is not JSON.
    data = text.read(_BLOCK_BYTES).removeprefix(b"\xef\xbb\xbf")
    while data:
        following = text.read(_BLOCK_BYTES)
        lines, end, rest = data.rpartition(b"\n") if following else (data, b"\n", b"")
        if end:
            block = b"".join([*pieces, lines])
            if block.strip():
                yield line, block
            line = line + block.count(b"\n") + 1
            pieces = []
            size = 0
        pieces.append(rest)
        size += len(rest)
        try:
            TEXT.check(size)
        except LimitError as error:
            raise RowError(f"line {line}: {error}") from None
        data = following


def schema_of(line: int, block: bytes, columns: Sequence[FileColumn]) -> pa.Schema:
    """Types of the rows of the first block. Times are instants if all have an offset, and texts in
    arrays and objects.
    """
    known = {column.name: column.arrow for column in columns}
    schema = rows_of(line, block, columns, "infer").schema
    texts = _parsed(
        block, pa.schema([(field.name, _in_json(field.type)) for field in schema]), "ignore"
    )
    return pa.schema(
        [
            (name, known.get(name) or _time_or_text(cells))
            for name, cells in zip(schema.names, texts.columns)
        ]
    )


def rows_of(line: int, block: bytes, columns: Sequence[FileColumn], others: str) -> pa.Table:
    """Table of the rows of a block that begins with this line; RowError with line and column where
    one does not fit.

    Args:
        others: What pyarrow does with other keys: "infer", "ignore" or "error".
    """
    try:
        return _read(block, columns, others)
    except _ERRORS as error:
        raise RowError(_fault(line, block.split(b"\n"), columns, others, error)) from None


def _read(block: bytes, columns: Sequence[FileColumn], others: str) -> pa.Table:
    """Read a block of lines, or raise an error without a place."""
    # This fails if the text is not UTF-8.
    block.decode()
    lines = block.count(b"\n") + 1
    # Most blocks have an object in each line, which three quick searches show.
    if not (block.startswith(b"{") and block.endswith(b"}") and block.count(b"}\n{") == lines - 1):
        lines = sum(map(_is_object, block.split(b"\n")))
    if block.count(b"[") + block.count(b"{") - lines > _MOST_LEVELS - 1:
        for line in block.split(b"\n"):
            if line.count(b"[") + line.count(b"{") > _MOST_LEVELS:
                _check_depth(line)
    schema = pa.schema([(column.name, _in_json(column.arrow)) for column in columns])
    # The lines before a wrong one may all be blank.
    table = _parsed(block, schema, others) if block.strip() else schema.empty_table()
    # pyarrow also reads several objects in a line.
    if table.num_rows != lines:
        raise ValueError("got other values behind it")
    declared = {column.name for column in columns if column.declared is not None}
    inferred = [name for name in table.schema.names if name not in declared]
    _check_integers(
        block, [name for name in inferred if any(map(_is_doubtful, table[name].chunks))]
    )
    for place, column in enumerate(columns):
        # pyarrow has read bytes as texts, see `_in_json`; ARRAYs of them have BYTES in their SQL
        # too.
        if "BYTES" in column.sql or "BINARY" in column.sql:
            table = table.set_column(
                place, column.name, pa.array(_decoded(table[column.name].to_pylist()), column.arrow)
            )
    return table


def _parsed(block: bytes, schema: pa.Schema, others: str) -> pa.Table:
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others)
    # A block size above the length lets pyarrow read all lines as one block, so types follow from
    # all of them.
    return pj.read_json(io.BytesIO(block), pj.ReadOptions(False, len(block) + 1), options)


def _is_object(line: bytes) -> bool:
    """False for a blank line; others begin and end an object, which pyarrow would also read from
    several lines.
    """
    line = line.strip()
    if line and not (line.startswith(b"{") and line.endswith(b"}")):
        raise ValueError(f"got {line[:_MOST_SHOWN].decode('utf-8', 'replace')}")
    return bool(line)


def _in_json(kind: pa.DataType) -> pa.DataType:
    """Type that pyarrow reads; it reads no dates and bytes, drops the offsets of times, and reads
    some numbers as others.
    """
    if pt.is_list(kind):
        return pa.list_(_in_json(kind.value_type))
    if pt.is_struct(kind):
        return pa.struct([field.with_type(_in_json(field.type)) for field in kind])
    if pt.is_temporal(kind) or pt.is_binary(kind) or pt.is_fixed_size_binary(kind):
        return pa.string()
    return pa.float64() if kind == pa.float32() else with_room(kind)


def _time_or_text(cells: pa.ChunkedArray) -> pa.DataType:
    """Type of the least precision that all texts have as times, else the type of the cells."""
    for unit in ("s", "ms", "us") if pt.is_string(cells.type) else ():
        for zone in (None, "UTC"):
            try:
                return cells.cast(pa.timestamp(unit, zone)).type
            except pa.ArrowInvalid:
                pass
    return cells.type


def _check_depth(line: bytes) -> None:
    """Refuse deep nesting, before pyarrow's reader recurses. Brackets in texts do not count."""
    # Escaped quotes go first, so that a text ends at its own quote.
    text = line.replace(rb"\\", b"").replace(rb"\"", b"")
    depths = accumulate(_STEPS[bracket] for bracket in _OTHER_THAN_BRACKETS.sub(b"", text))
    if any(depth > _MOST_LEVELS for depth in depths):
        raise ValueError(f"arrays and objects are nested more than {_MOST_LEVELS} levels deep")


def _is_doubtful(cells: pa.Array) -> bool:
    """True where a DOUBLE may have lost digits of an integer."""
    if pt.is_nested(cells.type):
        return any(
            map(_is_doubtful, cells.flatten() if pt.is_struct(cells.type) else [cells.flatten()])
        )
    return cells.type == pa.float64() and bool(
        pc.any(pc.greater_equal(pc.abs(cells), 2.0**53)).as_py()
    )


class _Digits(str):
    """An integer of JSON, as its text, to tell it from a text in quotes."""


class _InexactError(ValueError):
    """Error of an integer in a line of a block, counted from 0."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def _check_integers(block: bytes, names: Sequence[str]) -> None:
    """Look for integers that a DOUBLE does not hold, in columns with large numbers only.

    The lines are parsed again, so lines without 16 digits in a row are skipped.
    """
    for number, line in enumerate(block.split(b"\n") if names else ()):
        row = _row(line) if _LONG.search(line) else {}
        for name in names:
            _refuse_inexact(number, name, row.get(name))


def _refuse_inexact(line: int, name: str, value: object) -> None:
    if isinstance(value, _Digits) and is_inexact(value):
        raise _InexactError(line, f"column {name!r}: {inexact(value)}")
    for each in (
        value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    ):
        _refuse_inexact(line, name, each)


def _row(line: bytes) -> dict[str, object]:
    """The object in a line, with integers as text; nothing if it is not JSON."""
    try:
        row = json.loads(line.decode("utf-8", "surrogateescape"), parse_int=_Digits)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _decoded(value: object) -> object:
    """Bytes of a text in base64, or of lists of them, as Flink and Kafka read them."""
    if isinstance(value, list):
        return list(map(_decoded, value))
    return None if value is None else base64.b64decode("".join(str(value).split()), validate=True)


def _error(block: bytes, columns: Sequence[FileColumn], others: str) -> Exception | None:
    try:
        _read(block, columns, others)
    except _ERRORS as error:
        return error
    return None


def _fault(
    first: int,
    lines: Sequence[bytes],
    columns: Sequence[FileColumn],
    others: str,
    failure: Exception,
) -> str:
    """Describe the first line that cannot be read with those before it."""
    # A line is read with all lines before it, which a part of a range counts.
    place, failure = first_wrong(
        lambda part: _read(b"\n".join(lines[: part.stop]), columns, others),
        range(len(lines)),
        failure,
        _ERRORS,
    )
    line = lines[place]
    where = f"line {first + place}"
    error = _error(line, [], "ignore")
    row = _row(line)
    if isinstance(error, UnicodeDecodeError):
        wrong_names = [name for name, value in row.items() if not _is_utf8([name, value])]
        return f"{where}{f', column {wrong_names[0]!r}' if wrong_names else ''}: {not_utf8(error)}"
    if error is not None:
        return f"{where}: expected an object in one line: {_reason(error)}"
    # A line may be right alone, and differ in a type from the lines before it. An integer in one of
    # them is wrong then, as a number in this line makes it a DOUBLE.
    alone = _error(line, columns, others)
    error = alone or failure
    if isinstance(error, _InexactError):
        return f"line {first + error.line + (place if alone else 0)}, {error}"
    if twice := _TWICE.search(str(error)):
        return f"{where}: expected the key {twice[1]!r} once, got it twice"
    if _error(line, columns, "ignore") is not None:
        place, _ = first_wrong(
            lambda part: _read(line, columns[: part.stop], "ignore"),
            range(len(columns)),
            error,
            _ERRORS,
        )
        column = columns[place]
        cell = row.get(column.name)
        coded = " in base64" if pt.is_binary(column.arrow) else ""
        shown = json.dumps(cell, ensure_ascii=False)[:_MOST_SHOWN].strip(
            '"' if isinstance(cell, _Digits) else ""
        )
        return (
            f"{where}, column {column.name!r}: expected {column.sql}{coded}, got {shown}: {REMEDY}"
        )
    key = _unknown_key(row, pa.struct(arrow_schema_of(columns)))
    if key and others == "error":
        return (
            f"{where} has the key {key!r}, which the beginning of the first file lacks: name the"
            " columns to read in selectedCols, or declare all of them in schemaStr"
        )
    return f"{where}: {_reason(error)}: declare the columns to read in schemaStr"


def _reason(error: Exception | None) -> str:
    return _ROW.sub("", str(error)).strip()


def _is_utf8(value: object) -> bool:
    try:
        return bool(json.dumps(value, ensure_ascii=False).encode())
    except UnicodeEncodeError:
        return False


def _unknown_key(value: object, kind: pa.DataType) -> str | None:
    """Name of the first key that a type lacks."""
    if isinstance(value, list) and pt.is_list(kind):
        return next(filter(None, (_unknown_key(each, kind.value_type) for each in value)), None)
    for key, each in value.items() if isinstance(value, dict) and pt.is_struct(kind) else ():
        place = kind.get_field_index(key)
        inner = "" if place < 0 else _unknown_key(each, kind.field(place).type)
        if inner is not None:
            return f"{key}.{inner}".rstrip(".")
    return None
