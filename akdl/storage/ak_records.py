"""Records of Alink's .ak files, and the rows of a model table in such a file, for processes that
have no Flink.

    alink_meta.json   the schema
    data              "ALK", then for each row its length and the row

A length has three bytes, or three bytes of 255 and four more. `operators/alink/ak_file.py` reads
all types of columns.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import zipfile
from array import array
from typing import IO, Iterator, Union

from akdl.storage.archive import ArchiveError, Counter, Limits, check_directory, damage_is_named

Record = Union[bytes, bytearray]

META = "alink_meta.json"
MAGIC = b"ALK"
# Length in three bytes of rows that have as many bytes or more. Their real length follows in four
# bytes.
LONG = 0xFFFFFF
PIECE_BYTES = 1 << 20
_MODEL_ID = struct.Struct(">q")


def is_ak_file(path: str) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    try:
        with damage_is_named(), zipfile.ZipFile(path) as file:
            return META in file.namelist()
    except ArchiveError:
        return False


def model_rows(path: str) -> Iterator[tuple[int, str]]:
    """Yield the rows of a model table, (model_id, model_info), without its other columns;
    ArchiveError for another table.
    """
    # Unpacked bytes are counted, because a small file could unpack to more than the memory holds.
    counter = Counter(Limits.of(os.environ), os.path.getsize(path))
    with damage_is_named(), zipfile.ZipFile(path) as file:
        check_directory(file)
        with file.open(META) as content:
            try:
                schema = json.loads(content.read(PIECE_BYTES))["schemaStr"]
                names = [part.split()[0] for part in schema.split(",")]
            except (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError):
                raise ArchiveError(f"{META} has no valid schemaStr") from None
        if names[:2] != ["model_id", "model_info"]:
            raise ArchiveError(
                "expected a model table with the columns model_id, model_info, got"
                f" {', '.join(names)}; a pipeline of Alink is read with PipelineModel.load or"
                " LocalPredictor"
            )
        # A row begins with a bit for each column, which says that the column is null. The first two
        # are model_id and model_info.
        nulls = (len(names) + 7) // 8
        for entry in entries(file):
            with file.open(entry) as data:
                for record in records(data, entry, counter):
                    try:
                        text = (
                            None
                            if record[0] >> 6
                            else read_string(record, nulls + _MODEL_ID.size)[0]
                        )
                    except IndexError:
                        text = None
                    if text is None:
                        raise ArchiveError(f"{entry}: a row has no model_id or no model_info")
                    yield _MODEL_ID.unpack_from(record, nulls)[0], text


def entries(file: zipfile.ZipFile) -> Iterator[str]:
    """Yield the names of the entries with rows."""
    names = [name for name in file.namelist() if name.lower() != META and not name.endswith("/")]
    if not names:
        raise ArchiveError("the file has no entry with rows")
    yield from names


def records(data: IO[bytes], entry: str, counter: Counter) -> Iterator[Record]:
    """Yield the rows of an entry."""
    if data.read(len(MAGIC)) != MAGIC:
        raise ArchiveError(f"the entry {entry} does not begin with {MAGIC.decode()}")
    while True:
        head = data.read(3)
        if not head:
            return
        length = int.from_bytes(head, "big")
        if length == LONG:
            head = data.read(4)
            length = int.from_bytes(head, "big", signed=True)
        record = bytearray()
        while len(record) < length:
            # The length may be damaged, so memory is taken as bytes arrive and not in advance.
            piece = data.read(min(PIECE_BYTES, length - len(record)))
            if not piece:
                break
            counter.add_bytes(len(piece))
            record += piece
        if len(head) < 3 or length <= 0 or len(record) < length:
            raise ArchiveError("the file ends inside a row")
        yield record


def read_string(record: Record, place: int) -> tuple[str | None, int]:
    """Read UTF-16: the number of units, and each unit, in groups of seven bits."""
    length, place = read_varint(record, place)
    # A length of 0 means null, so the length of a text is stored plus 1.
    if not length:
        return None, place
    end = place + length - 1
    try:
        # Units below 128 take one byte each, so a text of ASCII letters is read without a loop.
        text = str(memoryview(record)[place:end], "ascii")
    except UnicodeDecodeError:
        units = array("H")
        for _ in range(length - 1):
            unit, place = read_varint(record, place)
            units.append(unit)
        # The units have the byte order of this machine, as elements of an array do.
        return str(units, f"utf-16-{sys.byteorder[0]}e"), place
    if len(text) < length - 1:
        raise ValueError("the record ends inside a string")
    return text, end


def read_varint(record: Record, place: int) -> tuple[int, int]:
    number = shift = 0
    while record[place] >= 0x80:
        number |= (record[place] & 0x7F) << shift
        shift, place = shift + 7, place + 1
        if shift > 28:
            raise ValueError("a length has more than five bytes")
    return number | record[place] << shift, place + 1
