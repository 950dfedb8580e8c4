"""Files of several attempts of several subtasks, on disk and in a storage of fsspec."""

from __future__ import annotations

import os
import pathlib
import random

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from bridge.exceptions import BridgeError, ConfigurationError
from bridge.files.publishing import file_system, publish
from bridge.files.writing import PartFiles
from tests.bridge.files.attempts import (
    IDS,
    files_of,
    found_ids,
    ids,
    listed,
    sink_of,
    table,
    written,
)
from tests.bridge.files.random_rows import KINDS, NESTED, random_batch

NULL = "__HIVE_DEFAULT_PARTITION__"


@pytest.mark.fault("files", "A stream without an end does not collect the names of its files")
def test_a_stream_forgets_the_files_that_it_has_published(tmp_path: pathlib.Path) -> None:
    files, held = PartFiles(sink_of(f"{tmp_path}/out/", appends=True), 0, 1), set()
    files.start(-1)
    for number in range(3):
        files.write(ids(number))
        files.checkpoint(number)
        files.complete(number)
        held.add(sum(len(each) for each in vars(files).values() if isinstance(each, dict)))
    assert held == {0} and found_ids(f"{tmp_path}/out/") == [0, 1, 2]


@pytest.mark.parametrize("form", ["parquet", "feather"])
def test_random_tables_come_back_exact(root: str, form: str) -> None:
    draw = random.Random(3)
    for number in range(25):
        batch = random_batch(draw, {**KINDS, **NESTED}, 40)
        address, halves = (
            f"{root}/{number}/",
            [batch.slice(0, batch.num_rows // 2), batch.slice(batch.num_rows // 2)],
        )
        sink = sink_of(address, batch.schema, form)
        publish(
            sink,
            {
                **written(PartFiles(sink, 0, 2), *halves[:1]),
                **written(PartFiles(sink, 1, 2), *halves[1:]),
            },
        )
        found = table(address, form).cast(batch.schema)
        assert repr(found.to_pylist()) == repr(batch.to_pylist()), batch.schema


def test_publication_removes_files_of_dead_attempts(root: str) -> None:
    sink = sink_of(f"{root}/out/")
    dead, unfinished = PartFiles(sink, 0, 2), PartFiles(sink, 1, 2)
    written(dead, ids(1, 2))
    unfinished.start(-1)
    unfinished.write(ids(3))
    unfinished.close()
    publish(
        sink,
        {**written(PartFiles(sink, 0, 2), ids(1, 2)), **written(PartFiles(sink, 1, 2), ids(3))},
    )
    assert found_ids(f"{root}/out/") == [1, 2, 3] and len(listed(f"{root}/out/")) == 2
    assert len(files_of(root)) == 2 + root.startswith("memory"), "and the manifest of a storage"


def test_single_file_replaces_the_earlier_one_and_refuses_checkpoints(root: str) -> None:
    for number in (1, 2):
        sink = sink_of(f"{root}/one.parquet", is_single=True)
        publish(sink, written(PartFiles(sink, 0, 1), ids(number)))
        assert list(files_of(root)) == ["one.parquet"] and found_ids(root) == [number]
    sink = sink_of(f"{root}/empty.parquet", is_single=True)
    publish(sink, written(PartFiles(sink, 0, 1)))
    system, path = file_system(f"{root}/empty.parquet")
    assert pq.read_table(path, filesystem=system).schema == IDS, (
        "a table without rows has a file with its columns"
    )
    with pytest.raises(
        ConfigurationError,
        match="filePath names one file, which a checkpoint would end: let it end with '/'",
    ):
        PartFiles(sink, 0, 1).checkpoint(1)


def test_files_of_a_checkpoint_are_kept_after_a_restart(root: str) -> None:
    address = f"{root}/out/"
    sink = sink_of(address)
    first = [PartFiles(sink, subtask, 2) for subtask in range(2)]
    for subtask, files in enumerate(first):
        files.start(-1)
        files.write(ids(subtask))
        files.checkpoint(1)
        files.write(ids(10 + subtask))
        files.checkpoint(2)  # is not completed
        files.write(ids(20 + subtask))
        files.close()
    again = [PartFiles(sink, subtask, 2) for subtask in range(2)]
    publish(
        sink,
        {
            **written(again[0], ids(10, 20), checkpoint=1),
            **written(again[1], ids(11, 21), checkpoint=1),
        },
    )
    assert found_ids(address) == [0, 1, 10, 11, 20, 21]
    late = PartFiles(sink, 0, 2)  # something else of the job failed after that
    late.start(1)
    late.write(ids(10, 20))
    assert late.end() is None and found_ids(address) == [0, 1, 10, 11, 20, 21]
    with pytest.raises(
        BridgeError, match="Sink: the job continues from a checkpoint of another run of the program"
    ):
        PartFiles(sink_of(address, token="22222222"), 0, 2).start(1)


def test_a_stream_without_end_adds_files_with_each_checkpoint(root: str) -> None:
    address = f"{root}/out/"
    sink = sink_of(address, appends=True)
    files = PartFiles(sink, 0, 1)
    files.start(-1)
    files.write(ids(1))
    files.checkpoint(1)
    assert not os.path.exists(f"{root}/out") and "out" not in {
        name.split("/")[0] for name in files_of(root)
    }
    files.complete(1)
    assert found_ids(address) == [1]
    files.write(ids(2))
    files.checkpoint(2)
    files.write(ids(3))
    files.checkpoint(3)
    files.close()
    again = PartFiles(sink, 0, 1)
    again.start(2)  # completed, which the dead attempt was not told
    assert found_ids(address) == [1, 2]
    again.write(ids(3, 4))
    assert again.end() == {} and found_ids(address) == [1, 2, 3, 4]
    assert len(files_of(address)) == 3 and len(files_of(root)) == 4, "and the record of the end"


@pytest.mark.fault("data", "A failure behind the end of a stream doubles no row in its files")
def test_an_attempt_that_goes_back_behind_the_end_of_a_stream_doubles_no_row(root: str) -> None:
    address = f"{root}/out/"
    sink = sink_of(address, appends=True)
    files = PartFiles(sink, 0, 1)
    files.start(-1)
    for number in (1, 2):
        files.write(ids(number))
        files.checkpoint(number)
    files.complete(1)
    files.write(ids(3))
    assert files.end() == {} and found_ids(address) == [1, 2, 3]
    again = PartFiles(sink, 0, 1)
    again.start(1)
    assert found_ids(address) == [1], "the other rows come again"
    again.write(ids(2, 3))
    assert again.end() == {} and found_ids(address) == [1, 2, 3]
    last = PartFiles(sink, 0, 1)
    last.start(2)  # a checkpoint that includes the end
    assert found_ids(address) == [1, 2, 3]
    new = PartFiles(sink, 0, 1)
    new.start(-1)
    assert found_ids(address) == [1, 2, 3] and len(files_of(root)) == len(files_of(address))


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_partitions_are_written_as_folders_and_read_back(root: str, form: str) -> None:
    types = pa.schema([("day", pa.string()), ("id", pa.int64()), ("n", pa.int32())])
    days = [None, "a/b", "x=1", "100%", "..", "", "é ü", "2024-05-31", *map(str, range(100))]
    cells = [
        pa.array(days * 3, pa.string()),
        pa.array(range(len(days) * 3), pa.int64()),
        pa.array([1, None, 2] * len(days), pa.int32()),
    ]
    rows = pa.record_batch(cells, schema=types)
    address = f"{root}/out/"
    sink = sink_of(address, types, form, partition_by=("day", "n"))
    publish(sink, written(PartFiles(sink, 0, 1), rows))
    parts = ds.partitioning(pa.schema([("day", pa.string()), ("n", pa.int32())]), flavor="hive")
    found = table(address, form, partitioning=parts, partition_base_dir=file_system(address)[1])
    key = lambda row: row["id"]  # noqa: E731
    expected = [
        {**row, "day": row["day"] if row["day"] != "" else found_empty}
        for row in rows.to_pylist()
        for found_empty in [""]
    ]
    assert sorted(found.select(["day", "id", "n"]).to_pylist(), key=key) == expected


def test_files_end_at_their_size(tmp_path: pathlib.Path) -> None:
    for form, rows in (("parquet", 5_000), ("csv", 2_000), ("feather", 5_000)):
        draw = random.Random(4)
        sink = sink_of(f"{tmp_path}/{form}/", form=form, most_bytes=20_000)
        files = PartFiles(sink, 0, 1)
        chunks = [ids(*(draw.getrandbits(60) for _ in range(500))) for _ in range(rows // 500)]
        publish(sink, written(files, *chunks))
        sizes = sorted(path.stat().st_size for path in (tmp_path / form).iterdir())
        assert len(sizes) > 1 and sizes[-1] < 30_000 and sizes[1] > 15_000, (form, sizes)


def test_ambiguous_times_are_refused(tmp_path: pathlib.Path) -> None:
    sink = sink_of(
        f"{tmp_path}/a.csv",
        pa.schema([("z", pa.timestamp("s"))]),
        "csv",
        is_single=True,
        instants=("z",),
    )
    files = PartFiles(sink, 0, 1)
    files.start(-1)
    batch = pa.record_batch(
        [pa.array([0], pa.timestamp("s")), pa.array([True])], ["z", "akdl_twice_0"]
    )
    with pytest.raises(
        ConfigurationError,
        match="Sink: column 'z' has a time in an hour that the session's time zone repeats",
    ):
        files.write(batch)


def test_folders_of_partitions_keep_letters_and_too_long_ones_are_refused(root: str) -> None:
    types = pa.schema([("p", pa.string()), ("id", pa.int64())])
    texts = ["中" * 30, "Köln", "a b+&<>|$!~`;,@()", "a/b%2F=:?*#'\"[]{}^\\\x7f\x01", "é"]
    sink = sink_of(f"{root}/out/", types, partition_by=("p",))
    publish(
        sink,
        written(PartFiles(sink, 0, 1), pa.record_batch([texts, range(len(texts))], schema=types)),
    )
    folders = {name.split("/")[0] for name in listed(f"{root}/out/")}
    assert {f"p={texts[0]}", f"p={texts[1]}", f"p={texts[2]}", f"p={texts[4]}"} < folders
    assert (
        "p=a%2Fb%252F%3D%3A%3F%2A%23%27%22%5B%5D%7B%7D%5E%5C%7F%01".replace("%7D", "}") in folders
    )
    parts = ds.partitioning(pa.schema([("p", pa.string())]), flavor="hive")
    found = table(
        f"{root}/out/", partitioning=parts, partition_base_dir=file_system(f"{root}/out/")[1]
    )
    assert dict(zip(found["id"].to_pylist(), found["p"].to_pylist())) == dict(enumerate(texts))
    if root.startswith("/"):
        files = PartFiles(sink_of(f"{root}/long/", types, partition_by=("p",)), 0, 1)
        files.start(-1)
        with pytest.raises(
            ConfigurationError,
            match="^Sink: partitionBy: column 'p' has a text that is too long .* 302 bytes: ",
        ):
            files.write(pa.record_batch([["中" * 100], [1]], schema=types))
