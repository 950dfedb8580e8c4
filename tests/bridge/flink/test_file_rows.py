"""Functions that list and read files; `tests.operators.test_file_sources` runs them in jobs."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyflink")

from bridge.codec.ipc import read_batch
from bridge.files.description import describe
from bridge.files.parts import parts_from
from bridge.flink.file_rows import ListFiles, MakeParts, ReadParts


def test_files_to_parts_to_rows(tmp_path: pathlib.Path) -> None:
    pq.write_table(pa.table({"a": range(1_000_000)}), tmp_path / "a.parquet")
    for number in range(100):
        pq.write_table(pa.table({"a": [-number]}), tmp_path / f"b{number}.parquet")
    table = describe("Source", [str(tmp_path)])
    units = list(ListFiles(table, [str(tmp_path)]).process_element(None, None))
    assert len(units) == 2
    make, read = MakeParts(table, 4 << 20), ReadParts(table)
    make.open(None)
    read.open(None)
    elements = [parts for unit in units for parts in make.process_element(unit, None)]
    parts = [parts_from(read_batch(element[2])) for element in elements]
    assert max(map(len, parts)) > 50 and len(parts) > 7  # many small files travel together
    batches = [read_batch(chunk[2]) for element in elements for chunk in read.process_element(element, None)]
    found = pa.concat_arrays([batch.column(0) for batch in batches]).to_pylist()
    assert sorted(found) == sorted([*range(1_000_000), *(-number for number in range(100))])
    assert max(batch.nbytes for batch in batches) <= 1 << 20
