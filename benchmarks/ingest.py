"""Reading rows in a script, compared with TensorFlow's own reader and parser of a file with the
same rows.

    python benchmarks/ingest.py [--rounds N] [--folder FOLDER]

All read batches of 1,024 rows. The chunks are in memory when the clock starts, so only the work
inside the TensorFlow process is measured. One process runs on one processor, without Flink; then
`batches` runs on several processors and on one.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import pathlib
import tempfile
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from report import Figure, arguments, report

from akdl import features
from akdl.rows.examples import ExampleEncoder
from akdl.rows.file_rows import FileRows
from akdl.rows.stream_rows import StreamRows
from akdl.runner.context import TFContext
from akdl.wire import Chunk, Column, EndOfInput, Rows, TableColumn
from akdl.wire.cells import Cells, fill_column
from bridge.host.allocator import MEMORY

ROWS, CHUNK_ROWS, BATCH = 1_000_000, 8000, 1024
WIDTH = 16  # bytes of a string, numbers of an array
NULL_SHARE = 0.2
NUMBERS = {**{f"f{number}": "FLOAT NOT NULL" for number in range(10)}, "id": "BIGINT NOT NULL"}
MIXED = {
    **{f"s{number}": "STRING" for number in range(5)},
    **{f"d{number}": "DOUBLE" for number in range(3)},
    **{f"a{number}": "ARRAY<FLOAT>" for number in range(2)},
}
DEFAULTS = {
    name: "" if sql == "STRING" else 0 for name, sql in MIXED.items() if sql != "ARRAY<FLOAT>"
}

Make = Callable[[np.random.Generator, int], Cells]


def real(random: np.random.Generator, rows: int) -> Cells:
    """Return numbers."""
    return Cells(random.random(rows, "f4"))


def whole(random: np.random.Generator, rows: int) -> Cells:
    """Return integers of 5 bytes in a record."""
    return Cells(random.integers(2**33, 2**34, rows))


def double(random: np.random.Generator, rows: int) -> Cells:
    """Return numbers, some of them null."""
    return Cells(random.random(rows), random.random(rows) >= NULL_SHARE)


def string(random: np.random.Generator, rows: int) -> Cells:
    """Return strings, some of them null."""
    valid = random.random(rows) >= NULL_SHARE
    offsets = np.cumsum([0, *(valid * WIDTH)])
    return Cells(random.integers(97, 123, offsets[-1], "u1"), valid, None, offsets)


def array(random: np.random.Generator, rows: int) -> Cells:
    """Return arrays, some of them null."""
    valid = random.random(rows) >= NULL_SHARE
    offsets = np.cumsum([0, *(valid * WIDTH)])
    return Cells(random.random(offsets[-1], "f4"), valid, offsets)


MAKERS: dict[str, Make] = {
    "FLOAT NOT NULL": real,
    "BIGINT NOT NULL": whole,
    "DOUBLE": double,
    "STRING": string,
    "ARRAY<FLOAT>": array,
}


def table_columns(types: dict[str, str]) -> list[TableColumn]:
    """Return the columns of a table."""
    return [TableColumn(name=name, type=sql) for name, sql in types.items()]


def chunks(types: dict[str, str]) -> list[Chunk]:
    """Return the rows as chunks of the channel, and the end mark."""
    random = np.random.default_rng(0)
    made, checksum = [], 0
    for _ in range(0, ROWS, CHUNK_ROWS):
        columns = [
            fill_column(Column(), name, MAKERS[sql](random, CHUNK_ROWS))
            for name, sql in types.items()
        ]
        made.append(
            Chunk(
                rows=CHUNK_ROWS, columns=Rows(rows=CHUNK_ROWS, columns=columns).SerializeToString()
            )
        )
        checksum = zlib.crc32(made[-1].columns, checksum)
    return [*made, Chunk(end=EndOfInput(rows=ROWS, checksum=checksum))]


def count(dataset: Any, column: str) -> int:
    """Read all batches in TensorFlow and return the rows."""
    import tensorflow as tf

    return int(
        dataset.reduce(
            tf.constant(0, tf.int64), lambda n, batch: n + tf.size(batch[column], out_type=tf.int64)
        )
    )


def readers(
    types: dict[str, str], defaults: dict[str, Any] | None, rows: list[Chunk], path: str
) -> dict[str, Callable[[str], Callable[[], int]]]:
    """Return the readers by name: each prepares in its own folder and returns a function that reads
    and counts all rows.
    """
    import tensorflow as tf

    columns, counted = table_columns(types), next(iter(types))

    def parsed(dataset: Any) -> int:
        return count(features.batches(dataset, BATCH, columns, defaults=defaults), counted)

    def batches(rows: Any, **more: Any) -> int:
        return count(TFContext(rows, columns).batches(BATCH, defaults, **more), counted)

    return {
        "TFRecordDataset": lambda folder: lambda: parsed(tf.data.TFRecordDataset(path)),
        "batches": lambda folder: lambda: batches(FileRows(folder, rows, columns)),
        "batches, shuffled": lambda folder: (
            lambda: batches(FileRows(folder, rows, columns), shuffle_rows=10 * BATCH)
        ),
        "batches of a stream": lambda folder: lambda: batches(StreamRows(folder, rows, columns)),
        "flink_stream_dataset, parsed": lambda folder: (
            lambda: parsed(
                TFContext(FileRows(folder, rows, columns), columns).flink_stream_dataset()
            )
        ),
        "dataset_file, made": lambda folder: (
            lambda: len(FileRows(folder, rows, columns).file()) and ROWS
        ),
    }


TARGETS: dict[str, dict[str, float | None]] = {
    "numbers": {
        "batches": 3,
        "batches, shuffled": None,
        "batches of a stream": 3,
        "dataset_file, made": 1.5,
    },
    "mixed": {
        "batches": 3,
        "batches, shuffled": None,
        "batches of a stream": 3,
        "dataset_file, made": 1,
    },
}


def measured(
    kind: str, types: dict[str, str], defaults: dict[str, Any] | None, rounds: int, parent: str
) -> list[Figure]:
    """Measure all readers of one kind of table."""
    rates: dict[str, list[float]] = {}
    rows = chunks(types)
    path = os.path.join(parent, f"{kind}.tfrecords")
    encoder = ExampleEncoder(table_columns(types))
    with pathlib.Path(path).open("wb") as file:
        file.writelines(encoder.frames(Rows.FromString(chunk.columns)) for chunk in rows[:-1])
    for number in range(rounds + 1):
        for name, prepare in readers(types, defaults, rows, path).items():
            with tempfile.TemporaryDirectory(dir=parent) as folder:
                read = prepare(folder)
                begun = time.perf_counter()
                assert read() == ROWS
                seconds = time.perf_counter() - begun
            if number:  # the first round warms up
                rates.setdefault(name, []).append(ROWS / seconds)
    os.remove(path)
    limits = rates.pop("TFRecordDataset")
    return [
        Figure(
            f"{kind}: {name}",
            "rows/s",
            values,
            limits,
            "TFRecordDataset, parsed",
            TARGETS[kind].get(name),
        )
        for name, values in rates.items()
    ]


TABLES = {"numbers": (NUMBERS, None), "mixed": (MIXED, DEFAULTS)}
CORES, PASSES = 4, 5


@functools.lru_cache(maxsize=1)
def kept(kind: str) -> list[Chunk]:
    """Return the rows of one kind of table, made once in a process."""
    return chunks(TABLES[kind][0])


def rate(kind: str) -> float:
    """Return the rows per second out of `batches`, with all processors of this process and all rows
    there.
    """
    types, defaults = TABLES[kind]
    with tempfile.TemporaryDirectory() as folder:
        context = TFContext(
            FileRows(folder, kept(kind), table_columns(types)), table_columns(types)
        )
        assert context.rows.length() == ROWS
        begun = time.perf_counter()
        assert (
            count(context.batches(BATCH, defaults, num_epochs=PASSES), next(iter(types)))
            == PASSES * ROWS
        )
        return PASSES * ROWS / (time.perf_counter() - begun)


def beside_one_core(kind: str, rounds: int, processors: list[int]) -> Figure:
    """Measure `batches` on several processors and on one."""
    rates = []
    os.environ.update(MEMORY)  # as a script gets it
    spawn = multiprocessing.get_context("spawn")
    for some in (processors, processors[:1]):
        with ProcessPoolExecutor(1, spawn, os.sched_setaffinity, (0, some)) as process:
            rates.append([process.submit(rate, kind).result() for _ in range(rounds + 1)][1:])
    return Figure(
        f"{kind}: batches, rows already there, {len(processors)} cores",
        "rows/s",
        *rates,
        "1 core",
        2,
    )


def main() -> None:
    """Measure and report."""
    given = arguments()
    processors = sorted(os.sched_getaffinity(0))[:CORES]
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])  # before TensorFlow starts its threads
    with tempfile.TemporaryDirectory() as parent:
        figures = [
            *measured("numbers", NUMBERS, None, given.rounds, parent),
            *measured("mixed", MIXED, DEFAULTS, given.rounds, parent),
        ]
    figures += [beside_one_core(kind, given.rounds, processors) for kind in TABLES]
    report(
        "ingest",
        f"Reading {ROWS:,} rows in batches of {BATCH:,}, on one processor unless said otherwise",
        figures,
        given.folder,
    )


if __name__ == "__main__":
    main()
