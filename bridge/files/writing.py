"""Files that the subtasks of a sink write, each with names of its own.

A checkpoint ends the open files, and a record next to them says which files it has added. A subtask
that continues from a checkpoint keeps the files of records up to this one, and removes the others:
their rows come again. So the truth about checkpoints is on disk, because Python functions without
keys have no state in Flink. Streams without an end publish the files of each completed checkpoint.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import secrets
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from akdl.masking import shown
from bridge.codec.ipc import selected
from bridge.exceptions import BridgeError, ConfigurationError
from bridge.files.listing import MANIFEST, NO_VALUE
from bridge.files.publishing import (
    CHECKPOINT_ENDS_FILE,
    Files,
    FileSink,
    file_system,
    files_in,
    is_missing,
    is_published,
    root_of,
    write_manifest,
)
from bridge.formats.texts import plain_texts

# Rows are held until they make a row group of a good size, in all open files of a subtask together.
_HELD_BYTES = 32 << 20
# With more partitions than this, the file that was opened first ends, and its partition gets a
# further file later.
_MOST_OPEN = 64


class PartFiles:
    """Files of one attempt of a subtask.

    Their names have the subtask, the token of the run and a random part of the attempt, so that no
    attempt writes into the files of another one.
    """

    def __init__(self, sink: FileSink, subtask: int, subtasks: int) -> None:
        self._sink = sink
        self._subtask = subtask
        self._subtasks = subtasks
        self._files, self._root = root_of(sink)
        attempt = f"{sink.token}{secrets.token_hex(4)}"
        self._names = (f"part-{subtask:05}-{attempt}-{n}" for n in itertools.count())
        self._open: dict[str, _OpenFile] = {}
        # The records of checkpoints name these files, so a restart keeps them.
        self._kept: Files = {}
        # These files go into the next record.
        self._new: Files = {}
        # These are the paths of records whose files are not published yet.
        self._records: dict[int, list[str]] = {}
        self._checkpoint = -1  # the last one, or that of the start
        self._is_published = False

    def start(self, checkpoint: int) -> None:
        """Begin, or continue from a checkpoint that is not -1. Files of dead attempts are removed.

        With another parallelism, a subtask takes over the files of earlier ones by their numbers
        modulo its own.
        """
        sink = self._sink
        self._checkpoint = checkpoint
        records = list[str]()
        others = list[str]()
        later = list[str]()  # records of checkpoints that this attempt does not go back to
        self._files.create_dir(self._root, recursive=True)
        found = files_in(self._files, self._root)
        if sink.keeps_manifest and not found:
            # Without a manifest, sources would read the files of this job one by one.
            write_manifest(sink, self._root, {"files": {}})
        for path in found:
            own = sink.own_name.fullmatch(os.path.basename(path))
            if own is not None and int(own["subtask"]) % self._subtasks == self._subtask:
                is_kept = own["checkpoint"] is not None and int(own["checkpoint"]) <= checkpoint
                (records if is_kept else others).append(path)
                if own["checkpoint"] is not None and not is_kept and checkpoint >= 0:
                    later.append(path)
        for path in records:
            self._kept.update(self._read(path))
        if checkpoint >= 0 and not sink.appends:
            self._is_published = is_published(sink)
            # Only subtask 0 can be sure of a record. With more subtasks than before, others may be
            # new.
            if not (self._is_published or records or self._subtask):
                raise BridgeError(
                    f"{sink.operator}: the job continues from a checkpoint of another run of the"
                    f" program, whose files in {shown(sink.address)} are not known here: run it"
                    " from the beginning"
                )
        if sink.appends:
            # An attempt that has reached its end has published files whose rows come again.
            _, target = file_system(sink.address)
            for name in (name for path in later for name in self._read(path)):
                if not is_missing(self._files, f"{target}/{name}"):
                    self._files.delete_file(f"{target}/{name}")
        if not self._is_published:
            for path in set(others) - {f"{self._root}/{name}" for name in self._kept}:
                self._files.delete_file(path)
        if sink.appends:
            _, target = file_system(sink.address)
            if not self._subtask and (
                sink.partition_by or not is_missing(self._files, f"{target}/{MANIFEST}")
            ):
                # The manifest of an earlier batch job would hide the files of the stream.
                self._files.create_dir(target, recursive=True)
                write_manifest(sink, target)
            self._move(self._kept, records)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows, to a file of each partition.

        Raises:
            ConfigurationError: A time or a partition cannot be written so that it is read as such.
        """
        # An earlier attempt has published all files, and only the end of the job was missing.
        if self._is_published:
            return
        sink = self._sink
        for name, mark in zip(sink.instants, batch.columns[len(sink.types) :]):
            if pc.any(mark).as_py():
                raise ConfigurationError(
                    f"{sink.operator}: column {name!r} has a time in an hour that the session's"
                    " time zone repeats, which would be read as another instant: write"
                    " EXTRACT(EPOCH FROM ...) instead"
                )
        columns = [
            # Flink's Arrow lacks the zones of instants. A view adds them without a change of the
            # numbers.
            column if column.type == field.type else column.view(field.type)
            for column, field in zip(batch.columns, sink.types)
        ]
        typed = pa.record_batch(columns, schema=sink.types)
        for folder, rows in _partitions(typed, sink.partition_by):
            file = self._open.get(folder)
            if file is None:
                if len(self._open) == _MOST_OPEN:
                    # A dictionary keeps the order of insertion, so the first key is the oldest
                    # file.
                    self._end(next(iter(self._open)))
                file = self._open[folder] = self._begin(folder)
            # The memory is shared by all open files. Only written rows count in the size of a file,
            # so no more than about a sixteenth of `most_bytes` waits.
            held = min(sink.format.batch_bytes, _HELD_BYTES // len(self._open))
            file.write(rows, min(held, (sink.most_bytes or _HELD_BYTES * 16) // 16))
            if sink.most_bytes is not None and file.bytes >= sink.most_bytes:
                self._end(folder)

    def checkpoint(self, number: int) -> None:
        """End the open files, and record which files belong to this checkpoint."""
        if self._sink.is_single:
            raise ConfigurationError(f"{self._sink.operator}: {CHECKPOINT_ENDS_FILE}")
        for folder in list(self._open):
            self._end(folder)
        self._checkpoint = number
        # The first checkpoint gets a record even without files. A later attempt recognizes by it
        # that the checkpoint belongs to this run of the program.
        if self._new or not self._records:
            # A stream without an end would collect all names, and `end` needs them of
            # other jobs only.
            if not self._sink.appends:
                self._kept.update(self._new)
            self._record(number)

    def complete(self, number: int) -> None:
        """Publish the files of a completed checkpoint in a stream: its rows never come again."""
        for past in [each for each in self._records if each <= number and self._sink.appends]:
            for path in self._records.pop(past):
                self._move(self._read(path), [path])

    def end(self) -> Files | None:
        """End the last files; return all that count, or None if an earlier attempt has published
        them.
        """
        if self._is_published:
            return None
        if not (
            self._open
            or self._kept
            or self._new
            or self._subtask
            or self._sink.partition_by
            or self._sink.appends
        ):
            # A table without rows has a file too, from which a source can read its columns.
            self._open[""] = self._begin("")
        for folder in list(self._open):
            self._end(folder)
        if self._sink.appends:
            # No function of Flink is called once a checkpoint includes this end. So the files are
            # published before, and their records stay for an attempt that goes back behind it.
            self._record(self._checkpoint + 1)
            for path in (path for paths in self._records.values() for path in paths):
                self._move(self._read(path), [])
            return {}
        return {**self._kept, **self._new}

    def close(self) -> None:
        """Leave open files unfinished. Safe to call twice."""
        while self._open:
            self._open.popitem()[1].abandon()

    def _begin(self, folder: str) -> _OpenFile:
        path = self._root
        for part in folder.split("/")[:-1]:
            path += f"/{part}"
            try:
                # With `recursive`, a dead attempt would make its staging folder again, after the
                # folder was published or removed. Without it, this fails.
                self._files.create_dir(path, recursive=False)
            except OSError as error:
                if error.errno != errno.ENAMETOOLONG:
                    raise
                column, _, text = part.partition("=")
                raise ConfigurationError(
                    f"{self._sink.operator}: partitionBy: column {urllib.parse.unquote(column)!r}"
                    " has a text that is too long for the name of a folder, which would have"
                    f" {len(part.encode())} bytes: shorten it in SQL, or leave the column in the"
                    f" files; the text is {text[:40]!r}..."
                ) from None
        name = f"{folder}{next(self._names)}.{self._sink.form}"
        return _OpenFile(name, self._files.open_output_stream(f"{self._root}/{name}"), self._sink)

    def _record(self, number: int) -> None:
        """Write which new files belong to a checkpoint."""
        name = f"_c{number}-{self._subtask:05}-{self._sink.token}{secrets.token_hex(4)}"
        with self._files.open_output_stream(f"{self._root}/{name}") as file:
            file.write(json.dumps(self._new).encode())
        self._records.setdefault(number, []).append(f"{self._root}/{name}")
        self._new = {}

    def _end(self, folder: str) -> None:
        file = self._open.pop(folder)
        file.close()
        self._new[file.name] = [file.rows, file.bytes]

    def _read(self, record: str) -> Files:
        with self._files.open_input_stream(record) as file:
            found: Files = json.loads(file.read())
            return found

    def _move(self, moved: Files, records: Sequence[str]) -> None:
        """Publish the files of a checkpoint, unless an earlier attempt has done so."""
        _, target = file_system(self._sink.address)
        for name in moved:
            # An attempt that died in this loop has moved some of them. Records go last, so the next
            # attempt finds the others.
            if not is_missing(self._files, f"{self._root}/{name}"):
                self._files.create_dir(os.path.dirname(f"{target}/{name}"), recursive=True)
                self._files.move(f"{self._root}/{name}", f"{target}/{name}")
        for path in records:
            self._files.delete_file(path)


class _OpenFile:
    """A file that is being written, with rows that wait for a row group of a good size."""

    def __init__(self, name: str, file: pa.NativeFile, sink: FileSink) -> None:
        self.name = name
        self._file = file
        self._types = pa.schema(
            [field for field in sink.types if field.name not in sink.partition_by]
        )
        self.rows = self.bytes = self._held_bytes = 0
        self._held: list[pa.RecordBatch] = []
        # Operators accept only formats with a writer.
        assert sink.format.writer is not None
        self._writer = sink.format.writer(file, self._types, sink.csv)

    def write(self, rows: pa.RecordBatch, most_held: int) -> None:
        self.rows += rows.num_rows
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= most_held:
            self._flush()
        self.bytes = self._file.tell()

    def close(self) -> None:
        self._flush()
        self._writer.close()
        self.bytes = self._file.tell()
        self._file.close()

    def abandon(self) -> None:
        self._held.clear()
        # The writer is closed first, as its garbage collection would write into the closed file.
        with suppress(Exception):
            self._writer.close()
        self._file.close()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._held, self._types).combine_chunks()
        self._held.clear()
        self._held_bytes = 0
        if len(table):
            self._writer.write_table(table)


def _partitions(batch: pa.RecordBatch, by: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the folder of each partition, as Hive names it, and its rows in their order."""
    if not by:
        yield "", batch
        return
    parts = []
    for name in by:
        texts = pc.fill_null(plain_texts(batch.column(name)), NO_VALUE).dictionary_encode()
        folders = [f"{_quoted(name)}={_quoted(text)}/" for text in texts.dictionary.to_pylist()]
        parts.append(pa.array(folders, pa.string()).take(texts.indices))
    found = pc.binary_join_element_wise(*parts, "").dictionary_encode()
    order = np.argsort(found.indices.to_numpy(), kind="stable")
    kept = [name for name in batch.schema.names if name not in by]
    rows = selected(batch, kept).take(pa.array(order))
    ends = np.cumsum(np.bincount(found.indices.to_numpy()))
    for folder, start, end in zip(found.dictionary.to_pylist(), [0, *ends], ends):
        yield folder, rows.slice(start, end - start)


_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")


def _quoted(text: str) -> str:
    """Part of the name of a folder, in which Hive and Spark escape these characters and keep all
    others.
    """
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)
