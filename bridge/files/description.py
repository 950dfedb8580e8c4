"""Description of a table in files, from the first of them and from what the user asks for.

It is made by the driver when a source is linked. Opening one file is enough, as each reader checks
that its file has the described columns. Only folders whose names have values are all listed.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, tee
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from akdl.near_names import did_you_mean, listed
from akdl.wire.column_type import parse_type
from bridge.codec.types import arrow_type
from bridge.exceptions import ConfigurationError, RowError, SchemaError, refused_at
from bridge.files.listing import (
    FoundFile,
    list_files,
    manifest_of,
    partition_values,
    partitioned_folder,
    root_of,
)
from bridge.files.predicates import columns_in, expression_of
from bridge.files.reading import FileParts, FileTable, errors_of
from bridge.formats.columnar import FileReader
from bridge.formats.csv_text import PLAIN_CSV, CsvForm
from bridge.formats.file_columns import FileColumn, column_of_field, declared_column
from bridge.formats.formats import FORMATS, format_of, pattern_instead, reader_of
from bridge.schema import Schema


def describe(
    where: str,
    addresses: Sequence[str],
    format_: str | None = None,
    selected: Sequence[str] | None = None,
    condition: Any = None,
    schema: Schema | None = None,
    may_be_empty: bool = False,
    csv: CsvForm = PLAIN_CSV,
    zone: Callable[[], datetime.tzinfo] = lambda: datetime.timezone.utc,
) -> FileTable:
    """Describe the table in the files at some addresses.

    Args:
        where: Operator, for errors.
        addresses: Paths, patterns, folders or addresses of a storage.
        format_: Name of the format; None to find it by the ending of the first file.
        selected: Names of its columns, in their order.
        condition: Filter: an SQL predicate, an expression of pyarrow, or pyarrow's lists of
            (column, operator, value).
        schema: Declared columns; the table has no others, but for selected ones.
        may_be_empty: Accept folders without files, if a schema is declared.
        csv: Form of files of CSV. If it has the names of the columns, names of folders are not
            read as columns.
        zone: Gives the time zone of texts that an SQL predicate compares with instants; called only
            if there are columns of instants.

    Raises:
        BridgeError: The files cannot be a table as it is asked for; the text names the parameter.
    """
    files, ahead = tee(list_files(where, addresses, may_be_empty and schema is not None))
    # An empty file has no columns, so the first one with bytes describes the table.
    first = next((file for file in ahead if file.size), None) or next(files, FoundFile("", 0))
    # `tee` would keep all files that `files` yields later.
    del ahead
    known_format = format_ or format_of(first.path)
    if known_format is None:
        named = f"the name {first.path!r} has no known ending"
        raise ConfigurationError(
            f"{where}: parameter 'format': {named if first.path else 'there is no file yet'}: set"
            f" it to one of {', '.join(FORMATS)}{pattern_instead(first.path, next(iter(FORMATS)))}"
        )
    roots = () if csv.names else tuple(map(root_of, addresses))
    declared = {column.name: declared_column(column) for column in schema or ()}
    needs_others = not declared or not declared.keys() >= set(selected or ())
    fields = dict[str, pa.Field]()
    if first.path:
        open_ = functools.partial(
            reader_of, known_format, first.path, list(declared.values()), form=csv
        )
        with errors_of(where, first.path, known_format):
            fields = _fields(open_, needs_others)
        in_folders = partition_values(first.path, roots)
        fields.update((name, pa.field(name, pa.string())) for name in in_folders)
        undeclared = [name for name in in_folders if name not in declared]
        if undeclared:
            # A filter reads the names of folders of empty files too, so these count. The listing
            # goes on, because one of millions of files is not repeated.
            fields.update(_folder_fields(chain([first], files), roots, undeclared))
    names = list(selected or declared or fields)
    unknown = [name for name in names if name not in fields and name not in declared]
    if unknown:
        hint = did_you_mean(unknown[0], [*fields, *declared])
        raise ConfigurationError(
            f"{where}: parameter 'selectedCols' names {listed(unknown)}{hint}; the first file has"
            f" {listed(fields)}"
        )
    with errors_of(where, first.path, known_format):
        if not names:
            raise SchemaError("it has no columns: declare them in schemaStr")
        if not all(map(str.strip, names)):
            raise SchemaError(
                f"column {[not name.strip() for name in names].index(True) + 1} of {listed(names)}"
                " has no name, as the index in a CSV file of pandas: name the other ones in"
                " selectedCols, or write the file with to_csv(index=False)"
            )
        columns = tuple(declared.get(name) or column_of_field(fields[name]) for name in names)
    expression, filtered = _filter(where, condition, fields, declared, zone)
    table = FileTable(
        where,
        known_format,
        columns,
        expression,
        tuple(column for column in filtered if column.name not in names),
        not (selected or schema),
        roots,
        csv,
        tuple(addresses),
    )
    # A declared type or a filter that does not fit the first file is refused here, in the driver,
    # and not after the start of a job.
    if first.size:
        FileParts(table).check(first.path)
    return table


def _fields(open_: Callable[[str], FileReader], needs_others: bool) -> dict[str, pa.Field]:
    """Fields of a file. Undeclared columns of text may lack a type if they are not needed.

    Text has no types, so they are inferred from its first rows, which may fail for a column that
    the table does not have.
    """
    try:
        schema = open_("infer").schema
    except RowError:
        if needs_others:
            raise
        schema = open_("ignore").schema
    return {field.name: field for field in schema}


def _folder_fields(
    files: Iterator[FoundFile], roots: Sequence[str], names: Sequence[str]
) -> dict[str, pa.Field]:
    """Fields of some columns in names of folders: of the types that a sink has recorded, else of
    integers or strings.

    One text that no integer has, such as 007, makes all cells of its column strings. So the names
    of all folders decide, and the files are listed until no column can be one of integers.
    """
    kinds = {name: set[pa.DataType]() for name in names}
    # A folder may have a million files, and its manifest is read once for all of them.
    manifest = functools.lru_cache(manifest_of)
    folder = None
    for path, _ in files:
        if path.rpartition("/")[0] == folder:
            continue
        folder = path.rpartition("/")[0]
        above = partitioned_folder(path, roots)
        recorded = manifest(above).partitions
        values = partition_values(path, roots)
        for name, kind in kinds.items():
            value = values.get(name)
            if name in recorded:
                kind.add(arrow_type(parse_type(recorded[name])))
            elif value is not None:
                kind.add(pa.int64() if _is_integer(value) else pa.string())
        # Further folders cannot change a column that has a text already, nor one whose type the
        # manifest of the only root has.
        if all(
            pa.string() in kind or ([above] == list(roots) and name in recorded)
            for name, kind in kinds.items()
        ):
            break
    return {name: pa.field(name, _common(kind)) for name, kind in kinds.items()}


def _common(kinds: set[pa.DataType]) -> pa.DataType:
    if len(kinds) == 1:
        return next(iter(kinds))
    return pa.int64() if kinds and all(map(pa.types.is_integer, kinds)) else pa.string()


def _is_integer(text: str) -> bool:
    """True for the texts that BIGINT writes."""
    return re.fullmatch("0|-?[1-9][0-9]{0,18}", text) is not None and -(2**63) <= int(text) < 2**63


def _filter(
    where: str,
    condition: Any,
    fields: dict[str, pa.Field],
    declared: dict[str, FileColumn],
    zone: Callable[[], datetime.tzinfo],
) -> tuple[pc.Expression | None, list[FileColumn]]:
    """Expression of a filter, and the columns that it reads."""
    if condition is None:
        return None, []
    known = dict(declared)
    for field in fields.values():
        try:
            # Files may have columns of types that Flink lacks. A filter cannot name them, and they
            # stop nothing else.
            known.setdefault(field.name, column_of_field(field))
        except SchemaError:
            continue
    types = {name: column.arrow for name, column in known.items()}
    with refused_at(
        f"{where}: parameter 'filter'", ConfigurationError, ValueError, TypeError, pa.ArrowException
    ):
        if isinstance(condition, str):
            # In Arrow's types for Flink, instants lack the zone that sets them apart.
            zoned = {
                name: pa.timestamp(column.arrow.unit, "UTC")
                for name, column in known.items()
                if column.sql.startswith("TIMESTAMP_LTZ")
            }
            local = zone() if zoned else datetime.timezone.utc
            expression = expression_of(condition, {**types, **zoned}, local)
        else:
            expression = (
                condition
                if isinstance(condition, pc.Expression)
                else pq.filters_to_expression(condition)
            )
        return expression, [known[name] for name in columns_in(expression, types)]
