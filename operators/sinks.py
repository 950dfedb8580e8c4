"""Sinks: operators whose rows the next job writes, through this program into a file, or into a Flink table."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
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
from operators.base.operator import Operator
from operators.batch_operator import BatchOperator
from operators.params.accessors import AkSinkParams, CsvSinkParams, TableSinkParams
from operators.params.param import WithParams
from operators.tables.csv_rows import CsvForm, csv_line


class _SinkOp(WithParams, Operator[Any]):
    def linkFrom(self, *ops: BatchOperator) -> BatchOperator:
        """Write the rows in the next job, such as that of `BatchOperator.execute()`."""
        (op,) = self._inputs(ops, "one BatchOperator")
        self._table = op.getOutputTable()
        self._include(op)
        self._write(self._values_of_all(), op)
        self._fix()
        return self  # type: ignore[return-value]

    def _write(self, values: dict[str, Any], op: BatchOperator) -> None:
        raise NotImplementedError(type(self).__name__)

    def _target(self, values: dict[str, Any]) -> str:
        name, address = type(self).__name__, values["filePath"]
        try:
            path = None if is_remote(address) else local_path(address)
        except FileError as error:
            raise ConfigurationError(f"{name}: filePath: {error}") from None
        if path is None:
            raise ConfigurationError(
                f"{name}: filePath {shown(address)!r}: only files on this host can be written: write to other addresses with "
                "a TableSinkBatchOp and a table of Flink's filesystem connector"
            )
        if os.path.isdir(path) or (os.path.exists(path) and not values["overwriteSink"]):
            raise ConfigurationError(f"{name}: filePath: {path} exists already; setOverwriteSink(True) replaces a file")
        return os.path.abspath(path)


class AkSinkBatchOp(AkSinkParams, _SinkOp, BatchOperator):
    """Writes an .ak file, readable by Alink, in the next job. The file appears when it is complete.

    Example:
        model.link(AkSinkBatchOp(filePath="model.ak", overwriteSink=True))
        BatchOperator.execute()

    Raises:
        ConfigurationError: The file exists and `overwriteSink` is not set, or .ak files do not support a column's type.
    """

    def _write(self, values: dict[str, Any], op: BatchOperator) -> None:
        name, table = type(self).__name__, op.getOutputTable()
        path, schema = self._target(values), schema_of(name, table)
        zone = session_zone(values["timeZone"], environment_of(table))
        with open(os.devnull, "wb") as nowhere:
            AkWriter(nowhere, schema, zone).close()  # raises errors about types and names now, before the job
        op._defer(_FileReceiver(path, lambda file: AkWriter(file, schema, zone)))


class CsvSinkBatchOp(CsvSinkParams, _SinkOp, BatchOperator):
    """Writes a CSV file without a header in the next job; null is an empty cell. The file appears when it is complete.

    Example:
        predicted.link(CsvSinkBatchOp(filePath="predicted.csv", overwriteSink=True))
        BatchOperator.execute()

    Raises:
        ConfigurationError: The file exists and `overwriteSink` is not set, or a column has the type ARRAY or BYTES.
    """

    def _write(self, values: dict[str, Any], op: BatchOperator) -> None:
        schema = schema_of(type(self).__name__, op.getOutputTable())
        instants = [column.name for column in schema if column.type.kind is Kind.TIMESTAMP_LTZ]
        for column in schema:
            if column.type.is_array or column.type.kind is Kind.BYTES:
                raise ConfigurationError(
                    f"CsvSinkBatchOp: column {column.name!r} has the type {column.type.sql}: CAST it to STRING, or convert an "
                    "ARRAY with toVector"
                )
        form = CsvForm(values["fieldDelimiter"], values["quoteChar"], values["rowDelimiter"])
        receiver = _FileReceiver(self._target(values), lambda file: _CsvWriter(file, form, len(schema.columns), instants))
        _with_local_times(op, schema)._defer(receiver)


class TableSinkBatchOp(TableSinkParams, _SinkOp, BatchOperator):
    """Inserts rows into a Flink table in the next job; `insertInto` does so at once.

    Example:
        getMLEnv().btenv.execute_sql("CREATE TEMPORARY TABLE scores (id BIGINT, score FLOAT) WITH ('connector' = 'blackhole')")
        scored.link(TableSinkBatchOp(tableName="scores"))
        BatchOperator.execute()

    Raises:
        ConfigurationError: The table does not exist, or its columns differ.
    """

    def _write(self, values: dict[str, Any], op: BatchOperator) -> None:
        name = values["tableName"]
        known = environment_of(op.getOutputTable()).list_tables()
        if "." not in name and name.strip("`") not in known:
            own = [each for each in known if not each.startswith(("akdl_", "UnnamedTable$"))]
            raise ConfigurationError(
                f"TableSinkBatchOp: tableName: there is no table {name!r}; the environment has {', '.join(own)}"
            )
        op._defer(None, name)


class _CsvWriter:
    """Writes rows that end with the cells that `_with_local_times` adds for columns of instants."""

    def __init__(self, file: IO[bytes], form: CsvForm, width: int, instants: Sequence[str]) -> None:
        self._text = open(file.fileno(), "w", encoding="utf-8", newline="", closefd=False)
        self._form, self._width, self._instants = form, width, instants

    def write(self, row: Sequence[Any]) -> None:
        if True in row[self._width :]:
            name = self._instants[row.index(True, self._width) - self._width]
            raise ConfigurationError(
                f"CsvSinkBatchOp: column {name!r} has a time in an hour that the session's time zone repeats, which would be "
                "read as another instant: write EXTRACT(EPOCH FROM ...) instead"
            )
        self._text.write(csv_line(row[: self._width], self._form))

    def close(self) -> None:
        self._text.close()


class _FileReceiver:
    def __init__(self, path: str, writer_of: Callable[[IO[bytes]], AkWriter | _CsvWriter]) -> None:
        self._path = path
        self._writer_of = writer_of
        self._whole: WholeFile | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        self._begin()
        for row in zip(*(column.to_pylist() for column in batch.columns)):
            self._writer.write(row)

    def finish(self) -> None:
        self._begin()
        assert self._whole is not None
        self._writer.close()
        self._whole.finish()

    def abandon(self) -> None:
        if self._whole is not None:
            with suppress(OSError):
                self._writer.close()  # an open zip file would write its end when it is garbage-collected
            self._whole.abandon()

    def _begin(self) -> None:
        if self._whole is None:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            self._whole = WholeFile(self._path)
            self._writer = self._writer_of(self._whole.file)


def _with_local_times(op: BatchOperator, schema: Schema) -> BatchOperator:
    """Convert instants to local times, with a column each that is true where the zone repeats this time ambiguously."""
    columns: list[str] = []
    twice: list[str] = []
    for column in schema:
        name = quoted(column.name)
        if column.type.kind is Kind.TIMESTAMP_LTZ:
            digits = column.type.arguments[0]
            local = f"CAST({name} AS TIMESTAMP({digits}))"
            twice.append(f"CAST({local} AS TIMESTAMP_LTZ({digits})) <> {name} AS akdl_twice_{len(twice)}")
            name = f"{local} AS {name}"
        columns.append(name)
    return op.select(", ".join([*columns, *twice])) if twice else op
