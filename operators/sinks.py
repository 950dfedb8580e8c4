"""Sinks: what an operator is linked to so that the next job writes its rows.

Rows of files travel to this program, which writes one file, complete or not at all. The job itself writes a table of Flink.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import tzinfo
from typing import IO, Any

import pyarrow as pa

from akdl.masking import shown
from akdl.storage.files import FileError, is_remote, local_path
from akdl.storage.whole_file import WholeFile
from akdl.wire.column_type import Kind
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema, quoted
from operators.alink.ak_file import AkWriter
from operators.base.job import environment_of, schema_of, session_zone
from operators.base.operator import Operator, inputs_of
from operators.batch_operator import BatchOperator
from operators.params.accessors import AkSinkParams, CsvSinkParams, TableSinkParams
from operators.params.param import WithParams
from operators.tables.csv_rows import CsvForm, csv_line


class _SinkOp(WithParams, Operator[Any]):
    def linkFrom(self, *ops: BatchOperator) -> BatchOperator:
        """Let the next job write the rows, such as that of `BatchOperator.execute()`."""
        ops = inputs_of(ops)
        name = type(self).__name__
        if len(ops) != 1 or not isinstance(ops[0], BatchOperator):
            raise ConfigurationError(
                f"{name} takes one BatchOperator, got {', '.join(type(op).__name__ for op in ops) or 'none'}"
            )
        self._table = ops[0].getOutputTable()
        self._also_starts_what(ops[0])
        self._write(self._values_of_all(), ops[0])
        self._fix()
        return self  # type: ignore[return-value]

    def _write(self, values: dict[str, Any], op: BatchOperator) -> None:
        raise NotImplementedError(type(self).__name__)

    def _target(self, values: dict[str, Any]) -> str:
        """Return the path of the file to write."""
        name, address = type(self).__name__, values["filePath"]
        try:
            path = None if is_remote(address) else local_path(address)
        except FileError as error:
            raise ConfigurationError(f"{name}: filePath: {error}") from None
        if path is None:
            raise ConfigurationError(
                f"{name}: filePath {shown(address)!r}: only files of this host can be written; a TableSinkBatchOp writes "
                "elsewhere, into a table with Flink's filesystem connector"
            )
        if os.path.isdir(path) or os.path.exists(path) and not values["overwriteSink"]:
            raise ConfigurationError(f"{name}: filePath: {path} exists already; setOverwriteSink(True) replaces a file")
        return os.path.abspath(path)


class AkSinkBatchOp(AkSinkParams, _SinkOp, BatchOperator):
    """Writes an .ak file, which Alink reads too.

    The next job writes it, in this program. The file appears when all rows are there.

    Example:
        model.link(AkSinkBatchOp(filePath="model.ak", overwriteSink=True))
        BatchOperator.execute()

    Raises:
        ConfigurationError: The file exists and is not to be replaced, or a column's type does not fit into such files.
    """

    def _write(self, values: dict[str, Any], op: BatchOperator) -> None:
        name, table = type(self).__name__, op.getOutputTable()
        zone = session_zone(values["timeZone"], environment_of(table))
        op._defer(_ak_receiver(self._target(values), schema_of(name, table), zone))


class CsvSinkBatchOp(CsvSinkParams, _SinkOp, BatchOperator):
    """Writes one CSV file without a line of names; null is an empty cell.

    The next job writes it, in this program. The file appears when all rows are there.

    Example:
        predicted.link(CsvSinkBatchOp(filePath="predicted.csv", overwriteSink=True))
        BatchOperator.execute()

    Raises:
        ConfigurationError: The file exists and is not to be replaced, or a column is an ARRAY or BYTES.
    """

    def _write(self, values: dict[str, Any], op: BatchOperator) -> None:
        schema = schema_of(type(self).__name__, op.getOutputTable())
        instants = [column.name for column in schema if column.type.kind is Kind.TIMESTAMP_LTZ]
        for column in schema:
            if column.type.is_array or column.type.kind is Kind.BYTES:
                raise ConfigurationError(
                    f"CsvSinkBatchOp: the column {column.name!r} has the type {column.type.sql}: CAST it to STRING, or "
                    "toVector makes a vector of an ARRAY"
                )
        form = CsvForm(values["fieldDelimiter"], values["quoteChar"], values["rowDelimiter"])

        def start(file: IO[bytes]) -> tuple[Callable[[Sequence[Any]], None], Callable[[], None]]:
            text = open(file.fileno(), "w", encoding="utf-8", newline="", closefd=False)

            def write(row: Sequence[Any]) -> None:
                if True in row[len(schema.columns) :]:
                    name = instants[row.index(True, len(schema.columns)) - len(schema.columns)]
                    raise ConfigurationError(
                        f"CsvSinkBatchOp: the column {name!r} is of an hour that the session's time zone has twice: "
                        "it would be read as another one, so write its EXTRACT(EPOCH FROM ...) in select"
                    )
                text.write(csv_line(row[: len(schema.columns)], form))

            return write, text.close

        _with_local_times(op, schema)._defer(_FileReceiver(self._target(values), start))


class TableSinkBatchOp(TableSinkParams, _SinkOp, BatchOperator):
    """Writes into a table that the environment knows, by the next job. `insertInto` does it at once.

    Example:
        getMLEnv().btenv.execute_sql("CREATE TEMPORARY TABLE scores (id BIGINT, score FLOAT) WITH ('connector' = 'blackhole')")
        scored.link(TableSinkBatchOp(tableName="scores"))
        BatchOperator.execute()

    Raises:
        ConfigurationError: There is no such table, or its columns are others.
    """

    def _write(self, values: dict[str, Any], op: BatchOperator) -> None:
        name = values["tableName"]
        known = environment_of(op.getOutputTable()).list_tables()
        if "." not in name and name.strip("`") not in known:
            own = [each for each in known if not each.startswith(("akdl_", "UnnamedTable$"))]
            raise ConfigurationError(f"TableSinkBatchOp: tableName: there is no table {name!r}; known are {', '.join(own)}")
        op._defer(None, name)


def _ak_receiver(path: str, schema: Schema, zone: tzinfo) -> _FileReceiver:
    """Return what writes rows into an .ak file."""

    def start(file: IO[bytes]) -> tuple[Callable[[Sequence[Any]], None], Callable[[], None]]:
        writer = AkWriter(file, schema, zone)
        return writer.write, writer.close

    with open(os.devnull, "wb") as nowhere:
        AkWriter(nowhere, schema, zone).close()  # a type that such files do not have is an error now
    return _FileReceiver(path, start)


class _FileReceiver:
    """Writes rows into a file, which appears when all are there.

    Args:
        start: Given the open file, returns what writes a row, and what comes after the last one.
    """

    def __init__(
        self, path: str, start: Callable[[IO[bytes]], tuple[Callable[[Sequence[Any]], None], Callable[[], None]]]
    ) -> None:
        self._path = path
        self._start = start
        self._whole: WholeFile | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        self._begin()
        for row in zip(*(column.to_pylist() for column in batch.columns)):
            self._write_row(row)

    def finish(self) -> None:
        self._begin()
        self._end()
        assert self._whole is not None
        self._whole.finish()

    def abandon(self) -> None:
        if self._whole is not None:
            with suppress(OSError):
                self._end()  # a zip file that is open would write its end when it is collected
            self._whole.abandon()

    def _begin(self) -> None:
        if self._whole is None:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            self._whole = WholeFile(self._path)
            self._write_row, self._end = self._start(self._whole.file)


def _with_local_times(op: BatchOperator, schema: Schema) -> BatchOperator:
    """Return instants as times of the session's time zone, as a CsvSource reads them, and for each column of them whether the
    zone has that time twice and means the other instant.
    """
    local: dict[str, str] = {}
    twice: list[str] = []
    for column in schema:
        if column.type.kind is Kind.TIMESTAMP_LTZ:
            name, digits = quoted(column.name), column.type.arguments[0]
            local[column.name] = f"CAST({name} AS TIMESTAMP({digits}))"
            twice.append(f"CAST({local[column.name]} AS TIMESTAMP_LTZ({digits})) <> {name} AS akdl_twice_{len(twice)}")
    if not local:
        return op
    columns = [f"{local[name]} AS {quoted(name)}" if name in local else quoted(name) for name in schema.names]
    return op.select(", ".join([*columns, *twice]))
