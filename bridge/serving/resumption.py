"""Predictions that outlive their job: complete files in a folder, which a later run reads.

A file appears by a rename once it is complete, so a listing of the folder is the record of what is
done, and no record can disagree with the files.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyflink.table import StreamTableEnvironment, Table

from akdl.masking import shown
from akdl.storage.files import FileError, is_remote
from bridge.codec.ipc import selected
from bridge.exceptions import refused_at
from bridge.files.publishing import file_system, files_in, opened_file_system
from bridge.files.reading import FileTable
from bridge.flink.file_rows import table_of_files
from bridge.formats.file_columns import FileColumn, arrow_schema_of, declared_column
from bridge.host.console import say
from bridge.schema import Schema, quoted
from bridge.table_env import planning

_PART_BYTES = 16 << 20
# With about a second for the requests under way, a killed task loses the predictions of five
# seconds.
_PART_S = 4.0
# The name has the number of rows, so the rows of a folder are counted without opening its files.
_PART = re.compile(r"part-[0-9a-f]{16}-(\d+)\.feather")
_UNFINISHED = re.compile(rf"\.{_PART.pattern}")
# A file is written in seconds, so after an hour without a change its writer has ended.
_DEAD_NS = 3600 * 10**9
_ID = "akdl_id"


@dataclass(frozen=True)
class Resumption:
    """Folder of predictions by the ids of their rows.

    Args:
        operator: Name of the predictor, for errors.
        place: The user's resumeDir.
        schema: Column of the ids, then the outputs.
        model: All that decides on the outputs. Predictions of another model, or with other
            columns, are in another subfolder, which is named by a hash.
    """

    operator: str
    place: str
    schema: Schema
    model: str

    @property
    def folder(self) -> str:
        return f"{self.place.rstrip('/')}/{hashlib.sha256(f'{self.schema} {self.model}'.encode()).hexdigest()[:16]}"  # noqa: E501

    @property
    def columns(self) -> tuple[FileColumn, ...]:
        first, *others = map(declared_column, self.schema)
        return (FileColumn(_ID, first.sql, first.arrow), *others)

    @planning()
    def split(
        self,
        table_env: StreamTableEnvironment,
        table: Table,
        result: Sequence[tuple[str, bool]],
        group: str,
    ) -> tuple[Table | None, Table]:
        """Rows that have been predicted, with the columns of the result, and rows that have not."""
        with refused_at(f"{self.operator}: resumeDir: {shown(self.place)}", FileError, OSError):
            with opened_file_system(self.folder) as (files, root):
                files.create_dir(root, recursive=True)
                names = [os.path.basename(path) for path in files_in(files, root)]
                # A task that was killed while it wrote has left a file. It is removed only if it is
                # an hour old, since another program may be writing to the folder now.
                for name in filter(_UNFINISHED.fullmatch, names):
                    with suppress(OSError):
                        path = f"{root}/{name}"
                        is_own = is_remote(self.folder) or os.stat(path).st_uid == os.getuid()
                        # Some storages of fsspec have no time; their files are left alone.
                        written = files.get_file_info(path).mtime_ns
                        if is_own and written is not None and written < time.time_ns() - _DEAD_NS:
                            files.delete_file(path)
        parts = {
            f"{self.folder}/{name}": int(found[1])
            for name in names
            if (found := _PART.fullmatch(name))
        }
        if not parts:
            return None, table
        say(
            f"{self.operator}: {sum(parts.values())} predicted rows are in {shown(self.place)}; the"
            " others are predicted now"
        )
        rows = f"akdl_rows_to_resume_{group}"
        known = f"akdl_known_{group}"
        table_env.create_temporary_view(rows, table)
        kept = FileTable(
            f"{self.operator}, resumeDir", "feather", self.columns, addresses=tuple(sorted(parts))
        )
        table_env.create_temporary_view(known, table_of_files(table_env, kept))
        cells = ", ".join(
            f"{'k' if is_output else 'r'}.{quoted(name)}" for name, is_output in result
        )
        # Tasks that were started again, and programs that ran at the same time, have predicted some
        # rows twice.
        once = (
            f"SELECT *, ROW_NUMBER() OVER (PARTITION BY {_ID} ORDER BY {_ID}) AS akdl_n FROM"
            f" {known}"
        )
        by_id = f"k.{_ID} = r.{quoted(self.schema.names[0])}"
        return (
            table_env.sql_query(
                f"SELECT {cells} FROM {rows} AS r JOIN ({once}) AS k ON {by_id} WHERE akdl_n = 1"
            ),
            table_env.sql_query(
                f"SELECT * FROM {rows} AS r WHERE NOT EXISTS (SELECT 1 FROM {known} AS k WHERE"
                f" {by_id})"
            ),
        )


class PredictionParts:
    """Files of one task, each complete when it appears.

    A file is written in memory and ends after four seconds or 16 MB, so that a killed task loses
    the predictions of about five seconds.
    """

    def __init__(self, resumption: Resumption) -> None:
        self._names = resumption.schema.names
        self._columns = resumption.columns
        self._files, self._root = file_system(resumption.folder)
        self._rows = 0
        self._begin()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows with ids and outputs, and end the file if it is due."""
        cells = selected(batch, self._names).columns
        self._writer.write_batch(
            pa.record_batch(
                [each.cast(to) for each, to in zip(cells, self._schema.types)], self._schema
            )
        )
        self._rows += batch.num_rows
        if self._sink.tell() > _PART_BYTES or time.monotonic() > self._due:
            self.end()
            self._begin()

    def end(self) -> None:
        """Write the last file. Safe to call twice."""
        if self._rows:
            self._writer.close()
            name = f"part-{secrets.token_hex(8)}-{self._rows}.feather"
            with self._files.open_output_stream(f"{self._root}/.{name}") as file:
                file.write(self._sink.getvalue())
            self._files.move(f"{self._root}/.{name}", f"{self._root}/{name}")
            self._rows = 0

    def _begin(self) -> None:
        self._schema = arrow_schema_of(self._columns)
        # The file is in memory until it is complete, so a killed task leaves at most the file that
        # it was writing to the folder.
        self._sink = pa.BufferOutputStream()
        self._writer = pa.ipc.new_file(self._sink, self._schema)
        self._due = time.monotonic() + _PART_S
