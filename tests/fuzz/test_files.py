"""Damaged Parquet and Arrow files and manifests: rows, or an error of ours, in little memory and
time.

A child reads them, so that a crash in a library, a hang or a lack of memory is a result too. ORC is
left out, because the library ends the process at a damaged footer of a stripe; SECURITY.md says so.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bridge.exceptions import BridgeError
from bridge.files.description import describe
from bridge.files.listing import list_files
from bridge.files.reading import FileParts
from tests.support.deadline import SLOWER
from tests.support.fuzzing import CASES, FIRST, damaged, damaged_json, outcomes

MEMORY_MB, CASE_S, READ_ROWS = 3072, int(20 * SLOWER), 100_000
DEPTHS: list[Any] = [None, [], ["a"], ["b", None]]


def table(rows: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(rows)),
            "text": pa.array(
                [None if number % 7 == 0 else f"text {number % 5}" for number in range(rows)]
            ),
            "bytes": pa.array([bytes([number % 256]) * (number % 9) for number in range(rows)]),
            "list": pa.array([DEPTHS[number % 4] for number in range(rows)], pa.list_(pa.string())),
            "price": pa.array([None, *range(rows - 1)], pa.int64()).cast(pa.decimal128(25, 3)),
            "at": pa.array(range(rows), pa.timestamp("us")),
        }
    )


def write_arrow(rows: pa.Table, path: str, make: Callable[..., Any], codec: str | None) -> None:
    labels = rows["text"].dictionary_encode()
    rows = rows.append_column("label", labels).combine_chunks()
    with (
        pa.OSFile(path, "wb") as file,
        make(file, rows.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer,
    ):
        writer.write_table(rows, max_chunksize=70)


WRITERS: dict[str, Callable[[pa.Table, str], None]] = {
    "plain.parquet": lambda rows, path: pq.write_table(
        rows, path, row_group_size=70, compression="none", use_dictionary=False
    ),
    "packed.parquet": lambda rows, path: pq.write_table(
        rows, path, compression="zstd", use_deprecated_int96_timestamps=True
    ),
    "delta.parquet": lambda rows, path: pq.write_table(
        rows.select(["id", "text"]),
        path,
        use_dictionary=False,
        column_encoding={"text": "DELTA_BYTE_ARRAY"},
    ),
    "plain.arrow": lambda rows, path: write_arrow(rows, path, pa.ipc.new_file, None),
    "packed.arrow": lambda rows, path: write_arrow(rows, path, pa.ipc.new_file, "zstd"),
    "plain.arrows": lambda rows, path: write_arrow(rows, path, pa.ipc.new_stream, None),
}


def read(folder: pathlib.Path, format_: str | None = None) -> int:
    """Read some rows of a folder; return how many."""
    described, rows = describe("Source", [str(folder)], format_), 0
    files = FileParts(described)
    for file in list_files("Source", [str(folder)]):
        for part, _ in files.parts_of(file.path):
            for batch in files.batches_of(part):
                rows += batch.num_rows
                for column in batch.columns:
                    str(column.slice(0, 100))
                if rows > READ_ROWS:
                    return rows
    return rows


def read_damaged(name: str, folder: pathlib.Path, first: int, count: int) -> None:
    """Print how the cases ended, behind the number of each case as it begins.

    An allocation beyond the limit is refused, which the reader has to report as an error of ours.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MB << 20,) * 2)
    whole, found = (folder / name).read_bytes(), outcomes()
    (folder / name).unlink()
    for number in range(first, first + count):
        print(name, number, flush=True)
        signal.alarm(CASE_S)
        rng = random.Random(number)
        (folder / f"damaged-{name}").write_bytes(damaged(rng, whole))
        try:
            found["rows" if read(folder) else "no rows"] += 1
        except BridgeError as error:
            assert str(error).startswith("Source: "), error
            found["refused"] += 1
    print("damaged", name, dict(found))


@pytest.mark.fault(
    "security",
    "Damaged Parquet and Arrow files give rows or an error, never a crash or the memory of the process",
)
# A few cases of all forms share a process, whose start takes longer than they do.
@pytest.mark.parametrize("names", [[name] for name in WRITERS] if CASES else [list(WRITERS)])
def test_damaged_files_end_in_rows_or_an_error(names: list[str], tmp_path: pathlib.Path) -> None:
    code = "from tests.fuzz.test_files import *"
    for name in names:
        folder = tmp_path / name
        folder.mkdir()
        WRITERS[name](table(200), str(folder / name))
        assert read(folder) == 200
        code += f"\nread_damaged({name!r}, pathlib.Path({str(folder)!r}), {FIRST}, {CASES or 100})"
    root = pathlib.Path(__file__).parents[2]
    child = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )
    lines = child.stdout.strip().splitlines()
    assert child.returncode == 0, (lines[-1:], child.returncode, child.stderr[-2000:])
    found = [line for line in lines if line.startswith("damaged")]
    assert len(found) == len(names) and all("refused" in line for line in found), found


@pytest.mark.fault(
    "security", "A damaged manifest in a folder of data reads no file outside of the folder"
)
def test_damaged_manifests_read_only_inner_files(tmp_path: pathlib.Path) -> None:
    inner = tmp_path / "inner"
    (inner / "k=1").mkdir(parents=True)
    for folder in (tmp_path, inner / "k=1"):
        pq.write_table(pa.table({"id": [1]}), folder / "part-0.parquet")
    manifest = {
        "files": {"k=1/part-0.parquet": 1, "../part-0.parquet": 1},
        "partitions": {"k": "STRING"},
    }
    found = outcomes()
    for number in range(FIRST, FIRST + (CASES or 300)):
        rng = random.Random(number)
        value = damaged_json(
            rng,
            manifest if rng.random() < 0.5 else {**manifest, "files": {"k=1/part-0.parquet": 1}},
        )
        text = json.dumps(value).encode()
        (inner / "_manifest.json").write_bytes(text if rng.random() < 0.5 else damaged(rng, text))
        try:
            assert all(
                pathlib.Path(file.path).parent == inner / "k=1"
                for file in list_files("Source", [str(inner)])
            )
            found[f"rows {read(inner)}"] += 1
        except BridgeError:
            found["refused"] += 1
    assert set(found) == {"rows 1", "refused"}, found
