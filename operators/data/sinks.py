"""Sinks: operators whose rows the next job writes, into files or into a Flink table.

Linking a sink checks everything and defers the writing, so that several sinks and printed results
share one job.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import tzinfo
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from akdl.masking import shown
from akdl.storage.files import FileError, is_remote, local_path, place_of
from akdl.storage.local_files import WholeFile
from akdl.wire.column_type import Kind
from bridge.exceptions import ConfigurationError, refused_at
from bridge.formats.csv_text import CsvForm
from bridge.host.shipped import runs_elsewhere
from bridge.schema import Schema, quoted
from bridge.table_env import has_checkpoints, is_streaming, parallelism_of, planning
from bridge.workarounds.pyflink_defects import columns_of
from operators.alink.ak_file import AkWriter
from operators.base.job import schema_of, session_zone
from operators.base.operator import Operator
from operators.batch_operator import BatchOperator
from operators.flink.collect import type_in_zone
from operators.flink.joint_job import Receiver, Uncollected
from operators.params.accessors import AkSinkParams, CsvSinkParams, FilesSinkParams, TableSinkParams
from operators.params.param import WithParams, fields_of
from operators.stream_operator import StreamOperator

if TYPE_CHECKING:
    from bridge.files.publishing import FileSink
    from bridge.files.writing import PartFiles


class _SinkOp(WithParams, Operator[Any]):
    def linkFrom(self, *ops: Any) -> Any:
        """Write the rows in the next job, such as that of `BatchOperator.execute()`."""
        (op,) = self._inputs(ops, f"one {self._family.__name__}")
        self._table = op.getOutputTable()
        self._include(op)
        self._write(self._values_of_all(), op)
        self._fix()
        return self

    def _write(self, values: dict[str, Any], op: Any) -> None:
        """Check the target and defer the writing; called once by `linkFrom`."""
        raise NotImplementedError

    def _own_place(self, address: str) -> str:
        """Return the place of an address, for `_written_to` of the rows that are written there.

        Raises:
            ConfigurationError: Another sink of the next job writes there.
        """
        # Storages other than this host's keep the slash at the end of a folder's address.
        place = address.rstrip("/")
        # Each of two sinks would replace the file of the other one, or remove its unpublished files
        # as leftovers of its own.
        waiting = {each.op._written_to for each in BatchOperator._deferred}
        if place in waiting | {each.op._written_to for each in StreamOperator._printed}:
            raise ConfigurationError(
                f"{self._name}: filePath: another sink of the next job writes to {shown(place)}:"
                " expected a place of its own, or one sink behind unionAll"
            )
        return place


class AkSinkBatchOp(AkSinkParams, _SinkOp, BatchOperator):
    """Writes an .ak file, readable by Alink, in the next job. The file appears when it is complete.

    Example:
        model.link(AkSinkBatchOp(filePath="model.ak", overwriteSink=True))
        BatchOperator.execute()

    Raises:
        ConfigurationError: The file exists and `overwriteSink` is not set, or .ak files do not
            support a column's type.
    """

    def _write(self, values: dict[str, Any], op: BatchOperator) -> None:
        path = self._target(values)
        schema = schema_of(self._name, op.getOutputTable())
        zone = session_zone(values["timeZone"], op._table_env)
        with open(os.devnull, "wb") as nowhere:
            # The writer raises errors about types and names. This call raises them now, and not
            # after the job.
            AkWriter(nowhere, schema, zone).close()
        written = op._followed_by(op.getOutputTable())
        written._written_to = self._own_place(path)
        written._defer(_AkFile(path, schema, zone))

    def _target(self, values: dict[str, Any]) -> str:
        """Absolute path of the file, as the program may change its folder before the job."""
        name = self._name
        address = values["filePath"]
        if is_remote(address):
            raise ConfigurationError(
                f"{name}: filePath {shown(address)!r}: only files on this host can be written:"
                " write to other addresses with a TableSinkBatchOp and a table of Flink's"
                " filesystem connector"
            )
        with refused_at(f"{name}: filePath", FileError):
            path = local_path(address)
        if os.path.isdir(path) or (os.path.exists(path) and not values["overwriteSink"]):
            raise ConfigurationError(
                f"{name}: filePath: {path} exists already; setOverwriteSink(True) replaces a file"
            )
        return path


class _FilesSinkOp(_SinkOp):
    _format: str

    def _write(self, values: dict[str, Any], op: Any) -> None:
        from bridge.files.publishing import CHECKPOINT_ENDS_FILE, FileSink, abandon, check_target
        from bridge.flink.file_sink import write_files

        name = self._name
        address = values["filePath"]
        by = tuple(values["partitionBy"])
        self._check_known("partitionBy", by, op.getColNames())
        rows, types, csv = self._rows(values, op)
        for column in [types.field(each) for each in by]:
            if (
                pa.types.is_nested(column.type)
                or pa.types.is_binary(column.type)
                or len(by) == len(types)
            ):
                raise ConfigurationError(
                    f"{name}: partitionBy: {column.name!r} cannot name folders: expected columns of"
                    " numbers, texts or times, and another one that is written"
                )
        subtasks = values["numFiles"]
        table_env = op._table_env
        most = parallelism_of(table_env)
        if (subtasks or 1) > most:
            raise ConfigurationError(
                f"{name}: numFiles={subtasks} needs as many slots; the parallelism is {most}"
            )
        # One file has one writer. A folder is written by all subtasks, and each of them may write
        # several files.
        is_single = not (
            address.endswith("/") or by or values["maxFileBytes"] or (subtasks or 1) > 1
        )
        with refused_at(f"{name}: filePath", FileError):
            address = place_of(address)
        # The rename of publication would replace a link, and not what the link leads to.
        if not is_remote(address) and os.path.islink(address):
            address = os.path.realpath(address)
        sink = FileSink(
            name,
            address,
            self._format,
            secrets.token_hex(4),
            types,
            is_single,
            False,
            by,
            values["maxFileBytes"],
            *csv,
        )
        check_target(sink, values["overwriteSink"])
        place = self._own_place(address)
        # Files end at each checkpoint, because a restart has to continue behind it, and a single
        # file cannot continue.
        if is_single and is_streaming(table_env) and has_checkpoints(table_env):
            raise ConfigurationError(f"{name}: {CHECKPOINT_ENDS_FILE}")
        # A path of this host means nothing on the hosts of a cluster, so the program itself writes
        # the file from the collected rows.
        if (
            is_single
            and isinstance(op, BatchOperator)
            and runs_elsewhere(table_env)
            and not is_remote(address)
        ):
            table = rows.getOutputTable()
            receiver: Receiver = _FileOfProgram(sink)
        else:
            with planning():
                table, sink = write_files(
                    table_env, rows.getOutputTable(), sink, 1 if is_single else subtasks
                )
            receiver = Uncollected(partial(abandon, sink))
        # One table may go to several sinks, so the place is noted at a copy.
        written = op._followed_by(table)
        written._written_to = place
        if isinstance(op, BatchOperator):
            written._defer(receiver)
        else:
            written._print_nothing(receiver.abandon)

    def _rows(self, values: dict[str, Any], op: Any) -> tuple[Any, pa.Schema, tuple[Any, ...]]:
        """Rows to write, Arrow types of their columns, and for CSV the further fields of a
        `FileSink`.
        """
        from bridge.flink.arrow_operators import arrow_types

        # Flink's Arrow types of instants have no zone, so PyFlink's types are needed to recognize
        # instants.
        columns = zip(arrow_types(op.getOutputTable()), columns_of(op.getOutputTable())[1])
        zoned = [
            field.with_type(type_in_zone(field.type, type_, "UTC")) for field, type_ in columns
        ]
        return op, pa.schema(zoned), ()


class _CsvSinkOp(_FilesSinkOp):
    _format = "csv"

    def _rows(self, values: dict[str, Any], op: Any) -> tuple[Any, pa.Schema, tuple[Any, ...]]:
        from bridge.flink.arrow_operators import arrow_types

        schema = schema_of(self._name, op.getOutputTable())
        for column in schema:
            if column.type.is_array or column.type.kind is Kind.BYTES:
                raise ConfigurationError(
                    f"{self._name}: column {column.name!r} has the type {column.type.sql}: CAST it"
                    " to STRING, or convert an ARRAY with toVector"
                )
        rows = _with_local_times(op, schema)
        # `_with_local_times` appends columns that are not written, so only the columns of the
        # schema count.
        types = pa.schema(list(arrow_types(rows.getOutputTable()))[: len(schema.columns)])
        instants = tuple(column.name for column in schema if column.type.kind is Kind.TIMESTAMP_LTZ)
        return rows, types, (CsvForm(**fields_of(CsvForm, values)), instants)


class CsvSinkBatchOp(CsvSinkParams, _CsvSinkOp, BatchOperator):
    """Writes CSV files without a header in the next job; null is an empty cell. Files appear when
    all are complete.

    Example:
        predicted.link(CsvSinkBatchOp(filePath="predicted.csv", overwriteSink=True))
        BatchOperator.execute()

    Raises:
        ConfigurationError: The target exists and `overwriteSink` is not set, or a column has the
            type ARRAY or BYTES.
    """


class CsvSinkStreamOp(CsvSinkParams, _CsvSinkOp, StreamOperator):
    """Writes the rows of a stream into CSV files, see `CsvSinkBatchOp` and
    `ParquetSinkStreamOp`.
    """


class ParquetSinkBatchOp(FilesSinkParams, _FilesSinkOp, BatchOperator):
    """Writes Parquet files in the next job. Files appear when all are complete.

    Instants are stored in UTC. A folder, a `filePath` that ends with /, gets files of each subtask.

    Example:
        predicted.link(ParquetSinkBatchOp(filePath="predicted/", overwriteSink=True))
        BatchOperator.execute()

    Raises:
        ConfigurationError: The target exists and `overwriteSink` is not set, or has files that no
            sink has written.
    """

    _format = "parquet"


class ParquetSinkStreamOp(FilesSinkParams, _FilesSinkOp, StreamOperator):
    """Writes the rows of a stream into Parquet files when `StreamOperator.execute()` runs.

    The files of a bounded stream appear at its end, as in `ParquetSinkBatchOp`. A stream without
    end adds files to a folder with each of Flink's checkpoints, which have to be enabled.

    Example:
        stream.link(ParquetSinkStreamOp(filePath="rows/"))
        StreamOperator.execute()

    Raises:
        ConfigurationError: The target exists, checkpoints would end a single file, or the stream is
            a changing table.
    """

    _format = "parquet"


class FeatherSinkBatchOp(FilesSinkParams, _FilesSinkOp, BatchOperator):
    """Writes Arrow's own files (Feather, version 2), see `ParquetSinkBatchOp`."""

    _format = "feather"


class FeatherSinkStreamOp(FilesSinkParams, _FilesSinkOp, StreamOperator):
    """Writes the rows of a stream into Arrow's own files (Feather, version 2), see
    `ParquetSinkStreamOp`.
    """

    _format = "feather"


class JsonSinkBatchOp(FilesSinkParams, _FilesSinkOp, BatchOperator):
    """Writes files with a JSON object per line, see `ParquetSinkBatchOp`.

    Times, bytes (in base64), NaN and infinity are strings.
    """

    _format = "json"


class JsonSinkStreamOp(FilesSinkParams, _FilesSinkOp, StreamOperator):
    """Writes the rows of a stream into files with a JSON object per line, see `JsonSinkBatchOp` and
    `ParquetSinkStreamOp`.
    """

    _format = "json"


class TableSinkBatchOp(TableSinkParams, _SinkOp, BatchOperator):
    """Inserts rows into a Flink table in the next job; `insertInto` does so at once.

    Example:
        getMLEnv().btenv.execute_sql(
            "CREATE TEMPORARY TABLE scores (id BIGINT, score FLOAT)"
            " WITH ('connector' = 'blackhole')"
        )
        scored.link(TableSinkBatchOp(tableName="scores"))
        BatchOperator.execute()

    Raises:
        ConfigurationError: The table does not exist, or its columns differ.
    """

    def _write(self, values: dict[str, Any], op: BatchOperator) -> None:
        name = values["tableName"]
        known = op._table_env.list_tables()
        # A name with a catalog or a database is left to Flink, because the list has only the tables
        # of the current database.
        if "." not in name and name.strip("`") not in known:
            # Views of akdl and of PyFlink have generated names, which mean nothing to a user.
            own = [each for each in known if not each.startswith(("akdl_", "UnnamedTable$"))]
            raise ConfigurationError(
                f"TableSinkBatchOp: tableName: there is no table {name!r}; the environment has"
                f" {', '.join(own)}"
            )
        op._defer(None, name)


@dataclass
class _FileOfProgram(Receiver):
    """Writes a file on this host, while the job runs on others."""

    sink: FileSink

    def take(self, batch: pa.RecordBatch) -> None:
        self._files.write(batch)

    def finish(self) -> None:
        from bridge.files.publishing import publish

        publish(self.sink, self._files.end() or {})

    def abandon(self) -> None:
        from bridge.files.publishing import abandon

        # The property makes the files when it is first read, so it is read only if rows came. The
        # next job of an elastic training makes new ones.
        if (files := vars(self).pop("_files", None)) is not None:
            files.close()
            abandon(self.sink)

    @cached_property
    def _files(self) -> PartFiles:
        from bridge.files.writing import PartFiles

        files = PartFiles(self.sink, 0, 1)
        # -1 stands for no checkpoint to continue from.
        files.start(-1)
        return files


@dataclass
class _AkFile(Receiver):
    """Writes an .ak file on this host, which appears when it is complete."""

    path: str
    schema: Schema
    zone: tzinfo

    def take(self, batch: pa.RecordBatch) -> None:
        for row in zip(*(column.to_pylist() for column in batch.columns)):
            self._begun[1].write(row)

    def finish(self) -> None:
        whole, writer = self._begun
        writer.close()
        whole.finish()

    def abandon(self) -> None:
        # A job that failed before its first row has begun no file, and reading the property would
        # begin one. The next job of an elastic training begins a new one.
        if (begun := vars(self).pop("_begun", None)) is not None:
            whole, writer = begun
            with suppress(OSError):
                # An open zip file would write its end when it is garbage-collected, after the file
                # was removed.
                writer.close()
            whole.abandon()

    @cached_property
    def _begun(self) -> tuple[WholeFile, AkWriter]:
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        whole = WholeFile(self.path)
        return whole, AkWriter(whole.file, self.schema, self.zone)


def _with_local_times(op: Any, schema: Schema) -> Any:
    """Convert instants to local times, with a column each that is true where the zone repeats this
    time ambiguously.
    """
    columns = []
    twice: list[str] = []
    for column in schema:
        name = quoted(column.name)
        if column.type.kind is Kind.TIMESTAMP_LTZ:
            # Where a zone sets its clocks back, two instants have one local time. The cast from the
            # local time to an instant chooses one of them, so a row with the other instant differs
            # after both casts.
            digits = column.type.arguments[0]
            local = f"CAST({name} AS TIMESTAMP({digits}))"
            twice.append(
                f"CAST({local} AS TIMESTAMP_LTZ({digits})) <> {name} AS akdl_twice_{len(twice)}"
            )
            name = f"{local} AS {name}"
        columns.append(name)
    return op.select(", ".join([*columns, *twice])) if twice else op
