"""Parts of files to record batches: columns and filters pushed down, cells in Flink's form.

This is where files are read, in the Python workers of a job: as rows of a table, as the share of a
member, or as input of a predictor. The driver reads the first file only, to describe the table. The
files are not read as a `pyarrow.dataset`, because its scanner decodes whole row groups (9 to 16
times the memory), fills missing columns with nulls and drops further ones silently, and its errors
name neither file nor column. A dataset only decides here which row groups and folders a filter can
leave out.
"""

from __future__ import annotations

import functools
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.types as pt

from akdl.masking import masked, shown
from akdl.storage.files import FileError
from akdl.storage.limits import GROUP
from bridge.codec.ipc import selected
from bridge.exceptions import BridgeError, ConfigurationError, RowError, SchemaError
from bridge.files.listing import FoundFile, partition_values
from bridge.files.parts import CutParts, FilePart, GroupCut
from bridge.files.predicates import columns_in
from bridge.formats.columnar import (
    MOST_ROWS,
    TO_THE_END,
    WHOLE,
    Batches,
    FileReader,
    ParquetReader,
    RowGroup,
    open_file,
)
from bridge.formats.csv_text import PLAIN_CSV, CsvForm
from bridge.formats.file_columns import FileColumn, arrow_schema_of, cells_for_flink, check_type
from bridge.formats.formats import FORMATS, pattern_instead, reader_of

PART_BYTES = 1 << 20
_BATCH_BYTES = 1 << 20
# A group may decode to so many times its file. A file of 343 bytes asked for 64 GB in one batch.
_MOST_RATIO = 200


@dataclass(frozen=True)
class FileTable:
    """A table in files.

    Args:
        where: Operator, for errors.
        columns: Columns of the table, in its order.
        filter: Expression that holds for all rows of the table; null is false.
        filtered: Columns that only the filter reads.
        all_columns: True if a file may have no other columns.
        roots: Folders below which the names of folders have the cells of columns, as in
            day=2024-05-31.
        csv: Form of files of CSV.
        addresses: Paths, patterns, folders or addresses of a storage, where the files are.
    """

    where: str
    format: str
    columns: tuple[FileColumn, ...]
    filter: pc.Expression | None = None
    filtered: tuple[FileColumn, ...] = ()
    all_columns: bool = False
    roots: tuple[str, ...] = ()
    csv: CsvForm = PLAIN_CSV
    addresses: tuple[str, ...] = ()

    @functools.cached_property
    def read(self) -> tuple[FileColumn, ...]:
        return (*self.columns, *self.filtered)

    def selected(self, names: Sequence[str]) -> FileTable:
        """Return this table with only the columns `names`.

        Columns of the files that aren't named are ignored, as with `selectedCols`. Columns that
        the filter needs are still read.
        """
        if list(names) == [column.name for column in self.columns]:
            return self
        known = {column.name: column for column in self.read}
        types = {name: column.arrow for name, column in known.items()}
        needed = [] if self.filter is None else columns_in(self.filter, types)
        filtered = tuple(known[name] for name in needed if name not in names)
        return replace(
            self, columns=tuple(known[name] for name in names), filtered=filtered, all_columns=False
        )

    @functools.cached_property
    def bytes_per_row(self) -> int:
        """Least number of bytes, of numbers alone."""
        return sum(_width(column.arrow) for column in self.columns)


class FileParts:
    """Parts of the files of a table, and their rows.

    The last file, and the group where the next part begins, stay open, because a task mostly reads
    parts in a row: without this, each part would decode its group from the first row. Objects
    belong to one thread.
    """

    def __init__(self, table: FileTable) -> None:
        self._table = table
        self._open: _Opened | None = None
        self._next: tuple[FilePart, Batches] | None = None
        # These are a group, and the bytes of its cells so far.
        self._decoded: tuple[object, int] = None, 0
        # These are a file without groups, and a number of rows that it does not have. Parts behind
        # it are empty.
        self._end: tuple[str, int] | None = None

    def parts_of(
        self, path: str, part_bytes: int | None = PART_BYTES
    ) -> Sequence[tuple[FilePart, int]]:
        """Return the parts of a file, each with an estimate of its bytes.

        Groups in which the filter holds for no row, by the statistics of the file, are left out.

        Args:
            path: Local path or address.
            part_bytes: Bytes of rows of a part; None for whole groups with exact numbers of rows,
                which members need to agree on their shares.

        Raises:
            BridgeError: The file cannot be read, or does not fit the table.
        """
        with errors_of(self._table.where, path, self._table.format):
            if not self._may_have_rows(path):
                return []
            file = self._opened(path)
            kept = self._kept_groups(file)
            groups = [group for group in file.groups if kept is None or group.number in kept]
            return CutParts([self._cut(file, group, part_bytes) for group in groups])

    def batches_of(self, part: FilePart) -> Batches:
        """Yield the rows of a part in batches of about 1 MB.

        Raises:
            BridgeError: A cell does not fit its column, or the file has changed since its listing.
        """
        with errors_of(self._table.where, part.path, self._table.format):
            file = self._opened(part.path)
            batches = self._from(part, file)
            left = part.rows
            before = sum(group.rows for group in file.groups if group.number < part.group)
            row = before + part.first + 1
            for batch in batches:
                # A batch may reach into the next part, which then begins with the rest of it.
                rest = []
                if part.rows != TO_THE_END and batch.num_rows > left:
                    batch, rest = batch.slice(0, left), [batch.slice(left)]
                left -= batch.num_rows
                converted = self._converted(batch, part, file, row)
                row += batch.num_rows
                if converted.num_rows:
                    yield converted
                if part.rows != TO_THE_END and not left:
                    self._next = (
                        part._replace(first=part.first + part.rows),
                        itertools.chain(rest, batches),
                    )
                    return
            # A file without groups is cut by an estimate, so the last parts may be empty. Its end
            # is noted, since each part behind it would parse the file from its first row again.
            if left > 0 and part.group == WHOLE:
                self._end = part.path, part.first + part.rows - left
            elif left > 0:
                raise RowError(
                    f"group {part.group} lacks {left} of its rows: the file was written again while"
                    " the job read it"
                )

    def bytes_per_part(self, file: FoundFile, part_bytes: int) -> int:
        """Estimate of the bytes that files like this one have for a part."""
        parts = self.parts_of(file.path, part_bytes) if file.size else []
        # A damaged file may claim any number of parts, so the first ones stand for all. The rows of
        # a part are limited by MOST_ROWS, so each counts by its rows too, however few bytes they
        # have.
        some = list(itertools.islice(parts, 1 << 12))
        decoded = (
            sum(max(size, part.rows * part_bytes // MOST_ROWS) for part, size in some)
            * len(parts)
            // max(len(some), 1)
        )
        return min(part_bytes, max(part_bytes // 64, file.size * part_bytes // max(decoded, 1)))

    def check(self, path: str) -> None:
        """Refuse a file that does not fit the table."""
        with errors_of(self._table.where, path, self._table.format):
            self._opened(path)

    def _from(self, part: FilePart, file: _Opened) -> Batches:
        """Return batches from the first row of a part on, beyond its end too."""
        waiting = self._next
        self._next = None
        # The last part of a group has another number of rows, so only path, group and first row are
        # compared.
        if waiting is not None and waiting[0][:3] == part[:3]:
            return waiting[1]
        if self._end is not None and self._end[0] == part.path and self._end[1] <= part.first:
            return iter(())
        group = next(group for group in file.groups if group.number == part.group)
        rows = self._rows_in(group, _BATCH_BYTES)
        return _without(part.first, file.reader.batches(part.group, file.names, rows))

    def _rows_in(self, group: RowGroup, size: int) -> int:
        """Number of rows of a group that have about `size` bytes."""
        rows, of_rows = (
            (group.rows, group.size) if group.rows > 0 else (group.sample_rows, group.sample_size)
        )
        per_row = max(self._table.bytes_per_row, of_rows / max(rows, 1), 1)
        return max(1, min(MOST_ROWS, int(size / per_row)))

    def _cut(self, file: _Opened, group: RowGroup, part_bytes: int | None) -> GroupCut:
        part = FilePart(file.path, group.number, 0, group.rows)
        if part_bytes is None:
            # The members compute their shares from these numbers, so the rows have to be counted,
            # for which one column is enough.
            if group.rows < 0:
                batches = file.reader.batches(group.number, file.names[:1], MOST_ROWS)
                part = part._replace(rows=sum(batch.num_rows for batch in batches))
            return GroupCut(part, max(part.rows, 1), 1, group.size)
        step = self._rows_in(group, part_bytes)
        if group.rows >= 0:
            return GroupCut(part, step, -(-group.rows // step), group.size)
        # The end is unknown: enough parts for the whole file, of which the last ones may be empty.
        return GroupCut(
            part,
            step,
            max(1, -(-group.size * group.sample_rows // (group.sample_size * step))),
            group.size,
        )

    def _opened(self, path: str) -> _Opened:
        if self._open is None or self._open.path != path:
            # The earlier file goes before the next one is opened, so that only one is in memory.
            self._open = None
            self._next = None
            values = partition_values(path, self._table.roots)
            others = "error" if self._table.all_columns else "ignore"
            reader = reader_of(self._table.format, path, self._table.read, others, self._table.csv)
            found = {field.name: field.type for field in reader.schema if field.name not in values}
            self._check(found, values)
            # A batch without columns has no rows, so one is read where all columns of the table
            # come from the folders' names.
            names = [column.name for column in self._table.read if column.name in found] or list(
                found
            )[:1]
            self._open = _Opened(path, reader, names, list(reader.groups(names)), values)
        return self._open

    def _check(self, found: dict[str, pa.DataType], values: dict[str, str | None]) -> None:
        """Refuse a file with other columns than the table."""
        for column in self._table.read:
            if column.name in found:
                check_type(column, found[column.name])
            elif column.name not in values:
                raise SchemaError(
                    f"it has no column {column.name!r}; it has"
                    f" {', '.join(map(repr, found)) or 'none'}"
                )
        known = {column.name for column in self._table.read}
        unknown = [name for name in (*found, *values) if name not in known]
        if self._table.all_columns and unknown:
            raise SchemaError(
                f"it has the column {unknown[0]!r}, which the first file lacks: name the columns to"
                " read in selectedCols, or declare all of them in schemaStr"
            )

    def _converted(
        self, batch: pa.RecordBatch, part: FilePart, file: _Opened, row: int
    ) -> pa.RecordBatch:
        cells = []
        values = file.values
        for column in self._table.read:
            place = batch.schema.get_field_index(column.name)
            if place < 0:
                found = pa.array([values[column.name]] * batch.num_rows, pa.string())
                cells.append(cells_for_flink(column, found, row))
            else:
                cells.append(file.reader.cells(column, batch.column(place), row))
        whole = pa.record_batch(cells, names=[column.name for column in self._table.read])
        group, before = self._decoded
        # The bytes of a group are counted over its parts, as a hostile file may decode to any size.
        self._decoded = part[:2], whole.nbytes + (before if group == part[:2] else 0)
        if part.group != WHOLE and self._decoded[1] > _MOST_RATIO * file.reader.size:
            GROUP.check(self._decoded[1])
        if self._table.filter is None:
            return whole
        names = [column.name for column in self._table.columns]
        kept = pa.Table.from_batches([whole]).filter(self._table.filter).combine_chunks()
        # A table without rows has no batches at all.
        return selected((kept.to_batches() or [whole.slice(0, 0)])[0], names)

    def _may_have_rows(self, path: str) -> bool:
        """False if the filter holds for no file in this folder."""
        if self._table.filter is None:
            return True
        # The fragment has no content, because pyarrow compares its partition expression alone with
        # the filter.
        fragment = ds.ParquetFileFormat().make_fragment(
            io.BytesIO(), partition_expression=self._in_folder(path)
        )
        files = ds.FileSystemDataset([fragment], arrow_schema_of(self._table.read), fragment.format)
        return any(True for _ in files.get_fragments(self._table.filter))

    def _kept_groups(self, file: _Opened) -> set[int] | None:
        """Row groups of a Parquet file that may have rows for which the filter holds; None for all.

        The statistics of the file decide, so a group that is kept may have no such row.
        """
        if self._table.filter is None or not isinstance(file.reader, ParquetReader):
            return None
        schema = file.reader.schema
        text = str(self._table.filter)
        # NaN is not in the statistics. A comparison of a column with a value is false for it, but
        # a negation, a function or a comparison of a comparison may hold.
        negates = re.search(r"\w(?<!is_valid)\(|!=|\) [<=>]|[<=>] \(", text)
        for column in self._table.read:
            if negates and pt.is_floating(column.arrow) and column.name in text:
                return None
            if column.name not in file.names:
                schema = schema.append(pa.field(column.name, column.arrow))
            elif column.declared is not None and schema.field(column.name).type != column.arrow:
                # A cast may change the order of the cells, which the statistics of the file have
                # uncast: as texts, 10 comes before 9.
                return None
        format_ = ds.ParquetFileFormat()
        try:
            with open_file(file.path) as source:
                fragment = format_.make_fragment(
                    source, partition_expression=self._in_folder(file.path)
                )
                return {
                    group.id for group in fragment.subset(self._table.filter, schema).row_groups
                }
        # The file has cells of another type than the filter, such as instants. Then all groups are
        # read, and the filter decides on their converted cells.
        except pa.ArrowException:
            return None

    def _in_folder(self, path: str) -> pc.Expression:
        """Expression that holds for all rows of a file by the names of its folders."""
        result = pc.scalar(True)
        values = partition_values(path, self._table.roots)
        for column in self._table.read:
            if values.get(column.name) is not None:
                cell = cells_for_flink(column, pa.array([values[column.name]]))[0]
                result = result & (pc.field(column.name) == cell)
        return result


@contextmanager
def errors_of(where: str, path: str, format_: str) -> Iterator[None]:
    """Name the operator and the file in errors."""
    try:
        yield
    # The kind of our own errors is kept, because it says whether the settings or the rows are at
    # fault.
    except BridgeError as error:
        raise type(error)(
            f"{where}: {shown(path)}: {error}{pattern_instead(path, format_)}"
        ) from None
    except FileError as error:
        raise ConfigurationError(f"{where}: {error}") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RowError(
            f"{where}: {shown(path)} cannot be read: expected the format {format_},"
            f" {FORMATS[format_].expected}:"
            f" {masked(str(error).strip(), path)}{pattern_instead(path, format_)}"
        ) from None


class _Opened(NamedTuple):
    """The file that is open, and what the names of its folders say."""

    path: str
    reader: FileReader
    names: list[str]  # columns to read from the file
    groups: list[RowGroup]
    values: dict[str, str | None]


def _width(kind: pa.DataType) -> int:
    is_fixed = pt.is_primitive(kind) or pt.is_decimal(kind) or pt.is_fixed_size_binary(kind)
    return kind.bit_width // 8 if is_fixed else 4


def _without(rows: int, batches: Batches) -> Batches:
    """Yield batches without their first rows, which have to be decoded nevertheless."""
    for batch in batches:
        if rows < batch.num_rows:
            yield batch.slice(rows)
        rows = max(0, rows - batch.num_rows)
