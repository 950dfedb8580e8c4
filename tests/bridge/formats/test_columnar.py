"""Row groups of Parquet, Arrow and ORC files; tests/bridge/files/test_reading.py has the cells of
all formats.
"""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bridge.formats.formats import reader_of


def test_a_large_group_is_read_in_little_memory(tmp_path: pathlib.Path) -> None:
    path, rows = str(tmp_path / "a.parquet"), 2_000_000
    pq.write_table(
        pa.table({"a": pa.array(range(rows), pa.int64())}),
        path,
        row_group_size=rows,
        use_dictionary=False,
    )
    reader = reader_of("parquet", path)
    (group,) = reader.groups(["a"])
    assert group.rows == rows and 15 << 20 < group.size < 17 << 20
    before, most, last = pa.total_allocated_bytes(), 0, 0
    for batch in reader.batches(0, ["a"], 100_000):
        last += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert last == rows and most < 4 << 20


def test_a_file_that_becomes_shorter_is_an_error(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": range(100_000)}), path, use_dictionary=False)
    reader = reader_of("parquet", str(path))
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises((pa.ArrowException, OSError)):
        list(reader.batches(0, ["a"], 1000))
