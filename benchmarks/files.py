"""Parquet files into scripts and through a model, compared with one process that has pyarrow and
TensorFlow, without Flink.

    python benchmarks/files.py [--rounds N] [--folder FOLDER] [--scale SHARE] [--only WORDS]

"Numbers" are 10 FLOAT and 1 BIGINT, "mixed" are 5 STRING, 3 DOUBLE and 2 ARRAY<FLOAT>, 20 % null.
One worker, a local environment of parallelism 1, batches of 1,024 rows. Tables of several sizes
name one file several times.
"""

from __future__ import annotations

import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import ingest
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from feed import profile
from jobs import SCRIPTS, Job, job_arguments, measure, script_job
from predict import COLUMNS, export_model
from report import Figure, report

ROWS, BATCH = 504_000, 1024  # of a file
BATCHES, FILE, MIXED, PREDICT = (
    "numbers into batches",
    "numbers into dataset_file",
    "mixed into batches",
    "predicted",
)
RECORDS, ARROW, ALONE = (
    "TFRecordDataset and parse_example",
    "pyarrow to tensors",
    "pyarrow and TensorFlow",
)
Run = Callable[[int], float]


def numbers(rows: int) -> pa.Table:
    """Return rows of numbers."""
    random = np.random.default_rng(0)
    return pa.table(
        {**{name: random.random(rows, "f4") for name in COLUMNS}, "id": np.arange(rows)}
    )


def mixed(rows: int) -> pa.Table:
    """Return rows of strings, numbers and arrays, a fifth of them null."""
    random = np.random.default_rng(0)

    def nulls() -> Any:
        return pa.array(random.random(rows) < 0.2)

    offsets = np.arange(0, 16 * (rows + 1), 16, "i4")
    columns: dict[str, Any] = {}
    for number in range(5):
        letters = pa.py_buffer(random.integers(97, 123, 16 * rows, "u1").tobytes())
        texts = pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), letters)
        columns[f"s{number}"] = pa.compute.if_else(nulls(), None, texts)
    for number in range(3):
        columns[f"d{number}"] = pa.compute.if_else(nulls(), None, pa.array(random.random(rows)))
    for number in range(2):
        arrays = pa.ListArray.from_arrays(
            pa.array(offsets), pa.array(random.random(16 * rows, "f4"))
        )
        columns[f"a{number}"] = pa.compute.if_else(nulls(), pa.scalar(None, arrays.type), arrays)
    return pa.table(columns)


def timed(run: Callable[[int], int], of_file: int) -> Run:
    """Return a function from a number of rows to the seconds that `run` takes for so many files; it
    returns the rows.
    """

    def seconds(rows: int) -> float:
        begun, files = time.monotonic(), max(1, rows // of_file)
        found = run(files)
        if found != files * of_file:
            raise SystemExit(f"expected {files * of_file} rows, got {found}")
        return time.monotonic() - begun

    return seconds


def fed(script: str, path: pathlib.Path, of_file: int) -> Run:
    """Return a job that counts the rows of files in a script."""
    from operators import ParquetSourceBatchOp

    def run(files: int) -> int:
        source = ParquetSourceBatchOp(filePath=[str(path)] * files)
        return int(script_job(source, SCRIPTS / script, "n BIGINT").collectToDataframe().n.sum())

    return timed(run, of_file)


def records(path: pathlib.Path, of_file: int) -> Run:
    """Write TFRecords with the rows of numbers, and return a function that counts them in this
    process.
    """
    import tensorflow as tf

    from akdl.features import batches
    from akdl.rows.examples import ExampleEncoder
    from akdl.wire import Rows

    columns = ingest.table_columns(ingest.NUMBERS)
    encoder = ExampleEncoder(columns)
    with path.open("wb") as file:
        for chunk in ingest.chunks(ingest.NUMBERS)[: of_file // ingest.CHUNK_ROWS]:
            file.write(encoder.frames(Rows.FromString(chunk.columns)))

    def run(files: int) -> int:
        dataset = batches(tf.data.TFRecordDataset([str(path)] * files), BATCH, columns)
        return ingest.count(dataset, "id")

    return timed(run, of_file)


def tensors(path: pathlib.Path, files: int) -> Iterator[dict[str, Any]]:
    """Yield batches of tensors that pyarrow reads: nulls are defaults, arrays ragged tensors."""
    import tensorflow as tf

    for _ in range(files):
        for batch in pq.ParquetFile(path).iter_batches(BATCH, use_threads=False):
            cells: dict[str, Any] = {}
            for name, column in zip(batch.schema.names, batch.columns):
                if pa.types.is_list(column.type):
                    lengths = pa.compute.list_value_length(column).fill_null(0).to_numpy()
                    cells[name] = tf.RaggedTensor.from_row_lengths(
                        column.flatten().to_numpy(), lengths
                    )
                elif pa.types.is_string(column.type):
                    cells[name] = tf.constant(column.fill_null("").to_numpy(zero_copy_only=False))
                else:
                    cells[name] = tf.constant(column.fill_null(0).to_numpy())
            yield cells


def arrow(path: pathlib.Path, of_file: int) -> Run:
    """Return a reader in this process: it counts the rows of files as tensors."""
    return timed(
        lambda files: sum(
            int(next(iter(cells.values())).shape[0]) for cells in tensors(path, files)
        ),
        of_file,
    )


def predicted(path: pathlib.Path, model: str, out: pathlib.Path, of_file: int) -> Run:
    """Return a job from Parquet to Parquet through a model."""
    from operators import (
        BatchOperator,
        ParquetSinkBatchOp,
        ParquetSourceBatchOp,
        TFSavedModelPredictBatchOp,
    )

    def run(files: int) -> int:
        op = TFSavedModelPredictBatchOp(
            modelPath=model,
            selectedCols=COLUMNS,
            reservedCols=["id"],
            outputSchemaStr="y FLOAT",
            inferBatchSize=8000,
        )
        source = ParquetSourceBatchOp(filePath=[str(path)] * files)
        source.link(op).link(ParquetSinkBatchOp(filePath=f"{out}/", overwriteSink=True))
        BatchOperator.execute()
        return sum(pq.read_metadata(each).num_rows for each in out.glob("*.parquet"))

    return timed(run, of_file)


def predicted_alone(path: pathlib.Path, model: str, out: pathlib.Path, of_file: int) -> Run:
    """Return the same without Flink, in this process."""
    import tensorflow as tf

    serve = tf.saved_model.load(model).signatures["serving_default"]

    def run(files: int) -> int:
        schema = pa.schema([("id", pa.int64()), ("y", pa.float32())])
        with pq.ParquetWriter(out, schema) as writer:
            for _ in range(files):
                for batch in pq.ParquetFile(path).iter_batches(8000, use_threads=False):
                    inputs = {name: tf.constant(batch.column(name).to_numpy()) for name in COLUMNS}
                    y = serve(**inputs)["y"].numpy()
                    writer.write_batch(
                        pa.record_batch([batch.column("id"), pa.array(y)], schema=schema)
                    )
        return int(pq.read_metadata(out).num_rows)

    return timed(run, of_file)


def main() -> None:
    """Measure and report."""
    from operators import useLocalEnv

    given = job_arguments()
    useLocalEnv(1)
    rows = max(1, int(ROWS * min(given.scale, 1)) // ingest.CHUNK_ROWS) * ingest.CHUNK_ROWS
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        plain, rich, model = (
            folder / "numbers.parquet",
            folder / "mixed.parquet",
            str(folder / "model"),
        )
        pq.write_table(numbers(rows), plain, row_group_size=rows // 2)
        pq.write_table(mixed(rows), rich, row_group_size=rows // 2)
        export_model(model)
        makers: dict[str, tuple[Callable[[], Run], int]] = {
            BATCHES: (lambda: fed("read_batches.py", plain, rows), 20),
            RECORDS: (lambda: records(folder / "numbers.tfrecords", rows), 6),
            FILE: (lambda: fed("read_file.py", plain, rows), 16),
            MIXED: (lambda: fed("read_batches.py", rich, rows), 6),
            ARROW: (lambda: arrow(rich, rows), 6),
            PREDICT: (lambda: predicted(plain, model, folder / "out", rows), 16),
            ALONE: (lambda: predicted_alone(plain, model, folder / "out.parquet", rows), 16),
        }
        pairs = ((BATCHES, 0.7), (FILE, 0.9), (BATCHES, RECORDS), (MIXED, ARROW), (PREDICT, ALONE))
        wanted = [(name, limit) for name, limit in pairs if given.only in name]
        needed = {each for pair in wanted for each in pair}
        jobs = {
            name: Job(make(), rows, files * rows)
            for name, (make, files) in makers.items()
            if name in needed
        }
        nets = measure(jobs, given.rounds, given.scale)
    figures = []
    for name, limit in wanted:
        net, unit = nets[name], "s per million rows"
        seconds = net.processors_per_million
        if isinstance(limit, float):
            figures.append(
                Figure(name, unit, seconds, [limit] * len(seconds), "asked for", 1.0, net.too_short)
            )
        elif limit == RECORDS:
            figures.append(
                Figure(
                    f"{name}, rate",
                    "rows/s",
                    net.rates,
                    nets[limit].rates,
                    limit,
                    3.0,
                    net.too_short,
                )
            )
        else:
            target = 1.5 if name == MIXED else 2.5
            figures.append(
                Figure(
                    name,
                    unit,
                    seconds,
                    nets[limit].processors_per_million,
                    limit,
                    target,
                    net.too_short,
                )
            )
    report("files", "Parquet files into scripts and through a model", figures, given.folder)
    print(f"\nProcessor seconds per million rows (in the kernel)\n{profile(nets)}")


if __name__ == "__main__":
    main()
