"""CSV files: whole rows of text, which pyarrow reads, and the cells in them. `csv_cells` has the
rules for the cells.

A block of text without quotes is read by pyarrow. Python's `csv` reads a block that has quotes, or
rows of several lengths, or that pyarrow refuses: pyarrow accepts a quote that is not closed, and
takes all rows behind it for one cell.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Optional

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from bridge.codec.first_wrong import first_wrong
from bridge.exceptions import ConfigurationError, RowError
from bridge.formats.columnar import Batches, UngroupedReader, open_text, slices
from bridge.formats.csv_cells import csv_cells, has_other_numbers, remedy_for
from bridge.formats.file_columns import FileColumn, column_of_field, not_utf8, remedy_of

# Text is read in blocks of this size, so it is the length of the longest row.
_BLOCK_BYTES = 4 << 20
_Rows = list[tuple[int, list[str]]]
"""Number of the last line of each row, and its cells."""


@dataclass(frozen=True)
class CsvForm:
    """Form of CSV text.

    Args:
        row_delimiter: What stands between rows; only an end of line can stand inside quotes.
        names: Columns of each row, in its order; if None, the first line has them.
    """

    field_delimiter: str = ","
    quote_char: str = '"'
    row_delimiter: str = "\n"
    null_literals: tuple[str, ...] = ()
    ignore_first_line: bool = False
    skip_blank_line: bool = True
    lenient: bool = False
    names: Optional[tuple[str, ...]] = None

    @property
    def end(self) -> str:
        """End of a row; all ends of lines are alike."""
        return "\n" if self.row_delimiter in ("\n", "\r\n") else self.row_delimiter


PLAIN_CSV = CsvForm()


class CsvReader(UngroupedReader):
    """A file of CSV. An empty cell is null.

    All cells are read as text first. Each column is then cast in one place, with rules of our own
    (`csv_cells`), so that 0x10 means the same in every source and an error has its line.
    """

    def __init__(
        self, path: str, columns: Sequence[FileColumn], others: str, form: CsvForm
    ) -> None:
        self._path = path
        self._form = form
        self._names = list(form.names or ())
        block, rows = next(((block, rows) for _, block, rows in self._blocks()), (b"", None))
        self._first = (block.count(form.end.encode()) + 1, max(1, len(block)))
        known = {column.name: column.arrow for column in columns}
        self.schema = pa.schema([(name, known.get(name, pa.null())) for name in self._names])
        # Two columns of one name are refused where the file is opened.
        if (
            others == "infer"
            and not known.keys() >= set(self._names)
            and len(set(self._names)) == len(self._names)
        ):
            texts = self._texts(0, block, rows, self._names)
            # pyarrow finds types in text alone, and takes a line of spaces for a row, so the rows
            # are written again.
            again = io.BytesIO()
            pv.write_csv(pa.table(texts, self._names), again, pv.WriteOptions(include_header=False))
            fields = zip(self._parsed(again.getvalue(), {}).schema, texts)
            types = {
                field.name: self._exact(field, cells)
                for field, cells in fields
                if field.name not in known
            }
            self.schema = pa.schema([(name, {**types, **known}[name]) for name in self._names])

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Batches:
        for line, block, found in self._blocks():
            yield from slices(
                [pa.record_batch(self._texts(line, block, found, columns), list(columns))], rows
            )

    def cells(self, column: FileColumn, cells: pa.Array, row: int) -> pa.Array:
        convert = partial(csv_cells, column, is_lenient=self._form.lenient)
        try:
            return convert(cells)
        except pa.ArrowException as failure:
            place, error = first_wrong(convert, cells, failure)
        where = f"line {self._line_of(row + place)}, column {column.name!r}"
        text = cells.view(pa.binary())[place].as_py()
        try:
            text = text.decode()
        except UnicodeDecodeError as wrong:
            raise RowError(
                f"{where}: {not_utf8(wrong)}, or declare BYTES for it in schemaStr"
            ) from None
        if self._form.names is None:
            raise RowError(
                f"{where}: expected {column.sql}, got {text[:60]!r}: {error}: {remedy_of(error)}"
            )
        raise RowError(
            f"{where}: expected {column.sql}, got {text!r};"
            f" {remedy_for(column, text)}setLenient(True) reads it as null"
        )

    def _exact(self, field: pa.Field, texts: pa.Array) -> pa.DataType:
        """Type that the cells of a column write: "007" is a text."""
        if field.type in (pa.int64(), pa.float64()) and has_other_numbers(texts):
            return pa.string()
        if field.type == pa.float64():
            self.cells(column_of_field(field), texts, 1)
        return field.type

    def _blocks(self) -> Iterator[tuple[int, bytes, _Rows | None]]:
        """Yield whole rows as text, the number of lines before them, and the rows themselves where
        pyarrow cannot read them.
        """
        form = self._form
        end = form.end.encode()
        quote = form.quote_char.encode()
        with open_text(self._path) as (text, self.size, self._size):
            # Some programs, such as Excel, begin a file of UTF-8 with a byte order mark, which is
            # not part of the first name.
            line = 0
            data = text.read(_BLOCK_BYTES).removeprefix(b"\xef\xbb\xbf")
            if data and (form.names is None or form.ignore_first_line):
                found, rest = self._rows(0, data, True, 1)
                # A name that is not UTF-8 is an error here, before it is compared with others.
                data[: len(data) - len(rest)].decode()
                data = rest
                line, names = found[0] if found else (0, [])
                self._check_header(names)
            # A blank line of spaces is a row for pyarrow where there is one column.
            is_arrow = (
                end == b"\n"
                and len(self._names) > 1
                and (form.field_delimiter + form.quote_char).isascii()
            )
            following = text.read(_BLOCK_BYTES)
            while data or following:
                if is_arrow and quote not in data:
                    place = (
                        # pyarrow takes a \r alone as an end of line too, and a block may have no
                        # other.
                        (data.rfind(b"\n") + 1 or data.rfind(b"\r") + 1) if following else len(data)
                    )
                    whole = data[:place]
                    rest = data[place:]
                    rows = None
                else:
                    rows, rest = self._rows(line, data, not following)
                    whole = data[: len(data) - len(rest)]
                if rest and not whole and len(rest) >= _BLOCK_BYTES:
                    raise RowError(
                        f"a row has more than {_BLOCK_BYTES >> 20} MB, or a quote is not closed"
                    )
                if whole:
                    yield line, whole, rows
                # Where no line ends in \n, the lines of the file end in \r.
                line += whole.count(end) or whole.count(b"\r") * (end == b"\n")
                data = rest + following
                following = text.read(_BLOCK_BYTES)

    def _check_header(self, cells: list[str]) -> None:
        """Take the names of the columns, or refuse names in another order than declared; other
        names are renamed.
        """
        if self._form.names is None:
            self._names = cells
            return
        names = [name.strip() for name in cells]
        for place, name in enumerate(self._names, 1):
            if name in names and names[place - 1 : place] != [name]:
                raise ConfigurationError(
                    f"line 1: the column {name!r} is number {names.index(name) + 1} of the file,"
                    f" and number {place} in schemaStr: declare the columns in the order of the"
                    f" file, which is {', '.join(names)}"
                )

    def _texts(
        self, line: int, block: bytes, rows: _Rows | None, names: Sequence[str]
    ) -> list[pa.Array]:
        """Cells of some columns as texts, which may not be UTF-8."""
        if rows is None:
            try:
                return [
                    column.combine_chunks()
                    for column in self._parsed(block, dict.fromkeys(names, pa.string())).columns
                ]
            except pa.ArrowInvalid:
                rows, _ = self._rows(line, block, True)
        width = len(self._names)
        for number, row in rows:
            if len(row) != width:
                if not self._form.lenient:
                    raise self._wrong_number(number, row)
                row[width:] = [""] * (width - len(row))
        cells = list(zip(*(row for _, row in rows))) or [()] * width
        nulls = pa.array(["", *self._form.null_literals])
        texts = [_array(cells[self._names.index(name)]) for name in names]
        return [pc.if_else(pc.is_in(each, value_set=nulls), None, each) for each in texts]

    def _parsed(self, block: bytes, types: dict[str, pa.DataType]) -> pa.Table:
        """Rows as pyarrow reads them: some columns of some types, or all columns if there are no
        `types`.
        """
        form = self._form
        if not block:
            return pa.table(
                {name: pa.nulls(0, types.get(name, pa.null())) for name in types or self._names}
            )
        return pv.read_csv(
            pa.BufferReader(block),
            # A block of pyarrow that is larger than the text is the whole text, so no row is cut.
            pv.ReadOptions(use_threads=False, column_names=self._names, block_size=len(block) + 1),
            pv.ParseOptions(
                delimiter=form.field_delimiter,
                quote_char=form.quote_char,
                newlines_in_values=True,
                ignore_empty_lines=form.skip_blank_line,
            ),
            pv.ConvertOptions(
                # A column may be declared BYTES, so UTF-8 is checked where texts become cells.
                check_utf8=False,
                column_types=types,
                null_values=["", *form.null_literals],
                strings_can_be_null=True,
                include_columns=list(types),
            ),
        )

    def _rows(self, line: int, block: bytes, is_last: bool, most: int = -1) -> tuple[_Rows, bytes]:
        """Rows below so many lines, and what stands behind the last whole one, unless it is the
        last of the file.

        With `most`, at most so many rows, before which blank lines may stand.
        """
        form = self._form
        found = _Rows()
        taken = list[str]()
        text = block.decode(errors="surrogateescape")
        by_line = form.end == "\n"
        # Rows may end in \r too, where no line of the block ends in \n.
        end = "\r" if by_line and "\n" not in text else form.end
        lines = (
            io.StringIO(text, newline="")
            if by_line
            else iter(re.findall(f"(?s).*?{re.escape(form.end)}|.+", text))
        )

        def noted() -> Iterator[str]:
            for each in lines:
                taken.append(each)
                yield each if by_line else each.removesuffix(form.end)

        # Python allows 128 KB for a cell unless this is set. Blocks bound the memory already.
        csv.field_size_limit(2**31 - 1)
        # Without `strict`, Python accepts a quote that is not closed, as pyarrow does.
        reader = csv.reader(
            noted(), delimiter=form.field_delimiter, quotechar=form.quote_char, strict=True
        )
        while True:
            taken.clear()
            if len(found) == most:
                break
            try:
                row = next(reader, None)
                if len(taken) > 1 and not by_line:
                    raise csv.Error(f"the rowDelimiter {form.row_delimiter!r} is inside quotes")
            except csv.Error as error:
                # At the end of a block, the row may only be incomplete, such as one with an open
                # quote. It is read again with the next block.
                if not is_last and next(lines, None) is None:
                    break
                raise RowError(
                    f"line {line + reader.line_num}: this is not a row of CSV: {error}; set"
                    f" quoteChar if it is not {form.quote_char!r}"
                ) from None
            if row is None or (not is_last and not taken[-1].endswith(end)):
                break
            if not (
                (form.skip_blank_line or most > 0) and len(row) <= 1 and not "".join(taken).strip()
            ):
                # An empty line is a row of nulls, as for pyarrow and in Alink.
                found.append((line + reader.line_num, row or [""] * len(self._names)))
        return found, "".join([*taken, *lines]).encode(errors="surrogateescape")

    def _line_of(self, row: int) -> int:
        """Number of the last line of a row, which is found by reading all rows before it.

        Only an error needs it, so no line is counted while all cells fit.
        """
        found = (rows or self._rows(line, block, True)[0] for line, block, rows in self._blocks())
        return next(islice(chain.from_iterable(found), row - 1, None))[0]

    def _wrong_number(self, line: int, row: Sequence[str]) -> RowError:
        """Make the error of a row with too few or too many cells, with the likely delimiter."""
        expected = len(self._names)
        delimiter = self._form.field_delimiter
        text = delimiter.join(row)
        other = next(
            (
                each
                for each in ",;\t|"
                if each != delimiter and text.count(each) == expected - 1 > 0
            ),
            None,
        )
        hint = (
            f"; if the cells are separated by {other!r}, set it as fieldDelimiter" if other else ""
        )
        if self._form.names is not None:
            hint += "; setLenient(True) accepts rows of any length"
        return RowError(f"line {line}: expected {expected} cells, got {len(row)}{hint}")


def _array(cells: Sequence[str]) -> pa.Array:
    """Array of texts, which keeps bytes that are not UTF-8: their column may be declared BYTES."""
    try:
        return pa.array(cells, pa.string())
    except UnicodeEncodeError:
        return pa.array(
            [cell.encode(errors="surrogateescape") for cell in cells], pa.binary()
        ).view(pa.string())
