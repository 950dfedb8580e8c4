"""Attempts of subtasks that write files, and the files that they leave."""

from __future__ import annotations

import json
import os
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs

from bridge.files.publishing import Files, FileSink, file_system
from bridge.files.writing import PartFiles

IDS = pa.schema([("id", pa.int64())])


def sink_of(
    address: str,
    types: pa.Schema = IDS,
    form: str = "parquet",
    token: str = "0badcafe",
    **more: Any,
) -> FileSink:
    return FileSink("Sink", address, form, token, types, **more)


def ids(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=IDS)


def written(files: PartFiles, *batches: pa.RecordBatch, checkpoint: int = -1) -> Files:
    files.start(checkpoint)
    for batch in batches:
        files.write(batch)
    found = files.end()
    assert found is not None
    return found


def files_of(address: str) -> dict[str, str]:
    """Names of all files below an address, and where they are."""
    system, folder = file_system(address)
    found = system.get_file_info(pa.fs.FileSelector(folder, recursive=True))
    return {
        os.path.relpath(info.path, folder): info.path
        for info in found
        if info.type == pa.fs.FileType.File
    }


def listed(address: str) -> list[str]:
    """Names of the files that count: those of the manifest in a storage."""
    names = files_of(address)
    if "_manifest.json" in names:
        with file_system(address)[0].open_input_stream(names.pop("_manifest.json")) as file:
            names = json.loads(file.read()).get("files", names)
    return sorted(names)


def table(address: str, form: str = "parquet", **more: Any) -> pa.Table:
    """All rows in the order of the names of the files."""
    system, folder = file_system(address)
    return ds.dataset(
        [f"{folder}/{name}" for name in listed(address)], filesystem=system, format=form, **more
    ).to_table()


def found_ids(address: str) -> list[int]:
    return sorted(table(address)["id"].to_pylist())
