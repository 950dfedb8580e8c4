"""Description of a table in files, from the first of them and from what the user asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from akdl.near_names import did_you_mean, listed
from bridge.exceptions import ConfigurationError, SchemaError, refused_at
from bridge.files.file_columns import FileColumn, column_of_field, declared_column
from bridge.files.formats import FORMATS, format_of, reader_of
from bridge.files.listing import FoundFile, list_files, partition_values, root_of
from bridge.files.predicates import columns_in, expression_of
from bridge.files.reading import FileParts, FileTable, errors_of
from bridge.schema import Schema


def describe(
    where: str,
    addresses: Sequence[str],
    format_: str | None = None,
    selected: Sequence[str] | None = None,
    condition: Any = None,
    schema: Schema | None = None,
    may_be_empty: bool = False,
) -> FileTable:
    """Describe the table in the files at some addresses.

    Args:
        where: Operator, for errors.
        selected: Names of its columns, in their order.
        condition: Filter: an SQL predicate, an expression of pyarrow, or pyarrow's lists of (column, operator, value).
        schema: Declared columns; the table has no others, but for selected ones.
        may_be_empty: Accept folders without files, if a schema is declared.
    """
    files = list_files(where, addresses, may_be_empty and schema is not None)
    first = next((file for file in files if file.size), None) or next(list_files(where, addresses, may_be_empty), None)
    known_format = format_ or (None if first is None else format_of(first.path))
    if known_format is None:
        named = "there is no file yet" if first is None else f"the name {first.path!r} has no known ending"
        raise ConfigurationError(f"{where}: parameter 'format': {named}: set it to one of {', '.join(FORMATS)}")
    roots = tuple(map(root_of, addresses))
    fields = {} if first is None else _fields(where, first, known_format, roots)
    declared = {column.name: declared_column(column) for column in schema or ()}
    names = list(selected or declared or fields)
    unknown = [name for name in names if name not in fields and name not in declared]
    if unknown:
        hint = did_you_mean(unknown[0], [*fields, *declared])
        raise ConfigurationError(
            f"{where}: parameter 'selectedCols' names {listed(unknown)}{hint}; the first file has {listed(fields)}"
        )
    path = "" if first is None else first.path
    with errors_of(where, path, known_format):
        if not names:
            raise SchemaError("it has no columns: declare them in schemaStr")
        columns = tuple(declared.get(name) or column_of_field(fields[name]) for name in names)
    expression, filtered = _filter(where, condition, fields, declared)
    others = tuple(column for column in filtered if column.name not in names)
    table = FileTable(where, known_format, columns, expression, others, not (selected or schema), roots)
    if first is not None and first.size:
        FileParts(table).check(first.path)
    return table


def _fields(where: str, file: FoundFile, format_: str, roots: Sequence[str]) -> dict[str, pa.Field]:
    """Fields of a file, and of the names of its folders."""
    with errors_of(where, file.path, format_):
        schema = reader_of(format_, file.path).schema
        fields = {field.name: field for field in schema}
        if len(fields) < len(schema):
            twice = next(name for name in schema.names if schema.names.count(name) > 1)
            raise SchemaError(f"it has two columns {twice!r}: rename one")
    for name, value in partition_values(file.path, roots).items():
        fields[name] = pa.field(name, pa.int64() if value is not None and value.isdecimal() else pa.string())
    return fields


def _filter(
    where: str, condition: Any, fields: dict[str, pa.Field], declared: dict[str, FileColumn]
) -> tuple[pc.Expression | None, list[FileColumn]]:
    """Expression of a filter, and the columns that it reads."""
    if condition is None:
        return None, []
    known = dict(declared)
    for field in fields.values():
        try:
            known.setdefault(field.name, column_of_field(field))
        except SchemaError:
            continue
    types = {name: column.arrow for name, column in known.items()}
    with refused_at(f"{where}: parameter 'filter'", ConfigurationError, ValueError, TypeError, pa.ArrowException):
        if isinstance(condition, str):
            expression = expression_of(condition, types)
        else:
            expression = condition if isinstance(condition, pc.Expression) else pq.filters_to_expression(condition)
        return expression, [known[name] for name in columns_in(expression, types)]
