"""Rows of ten FLOAT and a BIGINT into files: processor seconds per million rows.

    python benchmarks/sinks.py [--rounds N] [--folder FOLDER] [--scale SHARE] [--only WORDS]

"writer" is the last step alone, Arrow chunks of 1 MB to files in this process. "job" has all steps
and all processes, without the start-up and what the same source takes into nothing.
"""

from __future__ import annotations

import pathlib
import shutil
import tempfile
import time

import numpy as np
import pyarrow as pa
from jobs import Job, RandomRows, job_arguments, measure
from report import Figure, report

from bridge.codec.ipc import read_batch, write_batch

ASKED_S = {"csv": 1.0, "json": None, "parquet": 1.0, "feather": 1.0}
ROWS, CHUNK = 400_000, 20_000
COLUMNS = {**dict.fromkeys([f"f{number}" for number in range(10)], "FLOAT"), "id": "BIGINT"}
SMALL, LARGE = 200_000, 4_000_000


def writer_seconds(form: str, rows: int, folder: pathlib.Path) -> float:
    """Return the processor seconds per million rows of the writer alone."""
    from bridge.files.publishing import FileSink
    from bridge.files.writing import PartFiles

    random = np.random.default_rng(0)
    cells = [pa.array(random.random(CHUNK, "f4")) for _ in range(10)] + [pa.array(np.arange(CHUNK))]
    chunk = write_batch(pa.record_batch(cells, list(COLUMNS)))
    files = PartFiles(
        FileSink("sink", str(folder / f"w_{form}"), form, "0" * 8, read_batch(chunk).schema), 0, 1
    )
    files.start(-1)
    begun = time.process_time()
    for _ in range(max(1, rows // CHUNK)):
        files.write(read_batch(chunk))
    files.end()
    return (time.process_time() - begun) * 1e6 / (max(1, rows // CHUNK) * CHUNK)


def main() -> None:
    """Measure and report."""
    import operators

    given = job_arguments()
    asked_s = {form: asked for form, asked in ASKED_S.items() if given.only in form}
    folder = pathlib.Path(tempfile.mkdtemp(prefix="akdl_bench_sinks_"))
    table_env = operators.useLocalEnv(1).btenv
    limits = {
        f"fields.f{number}.{end}": value
        for number in range(10)
        for end, value in (("min", "0"), ("max", "1"))
    }
    random = RandomRows(table_env, "rows", COLUMNS, limits)

    def into(form: str) -> Job:
        kind = getattr(operators, f"{form.capitalize()}SinkBatchOp")

        def run(rows: int) -> float:
            sink = kind(filePath=f"{folder}/{form}/", overwriteSink=True)
            operators.BatchOperator.fromTable(random.table(rows)).link(sink)
            begun = time.monotonic()
            operators.BatchOperator.execute()
            return time.monotonic() - begun

        return Job(run, SMALL, LARGE)

    try:
        nets = measure(
            {"source": Job(random.jvm, SMALL, LARGE), **{form: into(form) for form in asked_s}},
            given.rounds,
            given.scale,
        )
        figures = []
        for form, asked in asked_s.items():
            alone = [
                writer_seconds(form, int(ROWS * given.scale), folder) for _ in range(given.rounds)
            ]
            limits, source = [asked or 1.0] * given.rounds, nets["source"].processors_per_million
            job = [
                taken - spared for taken, spared in zip(nets[form].processors_per_million, source)
            ]
            figures.append(
                Figure(f"{form}, writer", "s per million rows", alone, limits, "asked for", asked)
            )
            figures.append(
                Figure(
                    f"{form}, job", "s per million rows", job, limits, "asked of the writer", None
                )
            )
    finally:
        shutil.rmtree(folder)
    report("sinks", "Rows of numbers into files", figures, given.folder)


if __name__ == "__main__":
    main()
