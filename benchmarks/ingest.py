"""Reading rows in a script, beside TensorFlow's own reader of a file with the same records.

    python benchmarks/ingest.py [--rounds N] [--folder FOLDER]

All read batches of 1,024 rows and parse them. The chunks are in memory when the clock starts, so that what is measured is
what happens to them in the TensorFlow process. One process, no Flink.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from report import Figure, arguments, report

from akdl import features
from akdl.context import TFContext
from akdl.dataset import Rows
from akdl.packed import unpack
from akdl.stream_rows import StreamRows
from akdl.wire import Chunk, EndOfInput, TableColumn
from bridge.encoder import RowEncoder
from bridge.schema import Schema

ROWS, CHUNK_ROWS, BATCH = 1_000_000, 8000, 1024
TYPES = {**{f"f{number}": "FLOAT NOT NULL" for number in range(10)}, "id": "BIGINT NOT NULL"}
COLUMNS = [TableColumn(name=name, type=sql) for name, sql in TYPES.items()]


def chunks(labels: bool = False) -> list[Chunk]:
    """Return the rows as they come over the line, and the end mark; `id` counts, or is a label."""
    encoder = RowEncoder(Schema.parse(", ".join(f"{name} {sql}" for name, sql in TYPES.items())))
    random = np.random.default_rng(0)
    made, checksum = [], 0
    for first in range(0, ROWS, CHUNK_ROWS):
        cells = [pd.Series(random.random(CHUNK_ROWS, "f4")) for _ in range(10)]
        ids = pd.Series(cells[0] > cells[1] if labels else np.arange(first, first + CHUNK_ROWS) + 2**33).astype(np.int64)
        mask = pd.Series(np.zeros(CHUNK_ROWS, np.int64))
        ((_, rows, records),) = encoder.encode([*cells, ids, mask]).deal(1, 0)
        made.append(Chunk(rows=rows, records=records))
        checksum = zlib.crc32(records, checksum)
    return [*made, Chunk(end=EndOfInput(rows=ROWS, checksum=checksum))]


def count(dataset: Any) -> int:
    """Read all batches in TensorFlow and return the rows."""
    import tensorflow as tf

    return int(dataset.reduce(tf.constant(0, tf.int64), lambda n, batch: n + tf.size(batch["id"], out_type=tf.int64)))


def readers(rows: list[Chunk], path: str) -> dict[str, Callable[[str], Callable[[], int]]]:
    """Return by name what prepares to read, in a folder of its own, and returns what then reads all rows and counts them."""
    import tensorflow as tf

    def file(path: str) -> Callable[[], int]:
        return lambda: count(features.batches(tf.data.TFRecordDataset(path), BATCH, COLUMNS))

    return {
        "TFRecordDataset": lambda folder: file(path),
        "dataset_file, complete": lambda folder: file(Rows(folder, rows).file()),
        "flink_stream_dataset, arriving": lambda folder: lambda: count(TFContext(Rows(folder, rows), COLUMNS).batches(BATCH)),
        "dataset_fn of a stream": lambda folder: lambda: count(TFContext(StreamRows(folder, rows), COLUMNS).batches(BATCH)),
    }


def main() -> None:
    """Measure and report."""
    given = arguments()
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as parent:
        rows = chunks()
        path = os.path.join(parent, "same.tfrecords")
        pathlib.Path(path).write_bytes(b"".join(unpack(chunk.records) for chunk in rows))
        for number in range(given.rounds + 1):
            for name, prepare in readers(rows, path).items():
                with tempfile.TemporaryDirectory(dir=parent) as folder:
                    read = prepare(folder)
                    begun = time.perf_counter()
                    assert read() == ROWS
                    seconds = time.perf_counter() - begun
                if number:  # the first round warms up
                    rates.setdefault(name, []).append(ROWS / seconds)
    limits = rates.pop("TFRecordDataset")
    figures = [Figure(name, "rows/s", values, limits, "TFRecordDataset", 0.9) for name, values in rates.items()]
    report("ingest", f"Reading and parsing {ROWS:,} rows in batches of {BATCH:,}", figures, given.folder)


if __name__ == "__main__":
    main()
