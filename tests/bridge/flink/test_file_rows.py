"""Functions that read files, and checkpoints that complete between their steps."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyflink")

from bridge.codec.ipc import read_batch
from bridge.files.description import describe
from bridge.files.listing import list_files
from bridge.files.parts import NumberedFiles, parts_from
from bridge.flink.file_rows import ReadNumbered, ReadWatched, SendParts
from operators import ParquetSourceStreamOp, StreamOperator, resetEnv, useLocalEnv
from tests.e2e.streams import Sink
from tests.support.flink_functions import Subtask
from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.slow_rows import slow_rows

ROWS = 400_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Files with `ROWS` rows in all, of some thousands in each part. A checkpoint waits for the few
    parts that are ahead of it, which have to be a small share of all.
    """
    random = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("in")
    for number in range(2):
        half = ROWS // 2
        floats = {f"x{place}": random.random(half, dtype=np.float32) for place in range(40)}
        ids = np.arange(half * number, half * (number + 1))
        pq.write_table(
            pa.table({"id": ids, **floats}), path / f"{number}.parquet", row_group_size=150_000
        )
    return path


def test_each_numbered_part_has_a_bounded_number_of_rows(folder: pathlib.Path) -> None:
    table = describe("Source", [str(folder)])
    numbered = NumberedFiles(list_files("Source", [str(folder)]), 1 << 20)
    read = ReadNumbered(table, numbered)
    read.open(None)
    found = [
        [
            id
            for chunk in read.process_element(number, None)
            for id in read_batch(chunk.to_row()[2])["id"].to_pylist()
        ]
        for number in range(numbered.count)
    ]
    assert [id for ids in found for id in ids] == list(range(ROWS))
    assert max(map(len, found)) < 50_000


def test_small_files_are_sent_together(tmp_path: pathlib.Path) -> None:
    for number in range(100):
        pq.write_table(pa.table({"a": [number]}), tmp_path / f"{number}.parquet")
    numbered = NumberedFiles(list_files("Source", [str(tmp_path)]), 1 << 20)
    send = SendParts(describe("Source", [str(tmp_path)]), numbered, [5, 7])
    send.open(None)
    elements = [list(send.process_element(number, None)) for number in range(numbered.count)]
    parts = [
        parts_from(read_batch(first[1][3]))
        for first, second in elements
        if (first[0], second[0]) == (5, 7)
    ]
    assert list(map(len, parts)) == [64, 36] and all(
        part.rows == 1 for some in parts for part in some
    )


def test_watched_files_are_read_a_part_at_a_time_and_continue_from_a_checkpoint(
    folder: pathlib.Path,
) -> None:
    table, states = describe("Source", [str(folder)]), None
    found: list[int] = []
    for attempt in range(3):
        subtask = Subtask(ReadWatched(table, [[0]]), 0, states)
        if attempt == 0:
            for file in list_files("Source", [str(folder)]):
                assert list(subtask.function.process_element(file.path, subtask)) == []
        assert list(subtask.function.process_element("", subtask)) == []
        while subtask.processing_timers and (attempt == 2 or len(found) < 150_000 * (attempt + 1)):
            step = subtask.look()
            assert len(step) < 50_000
            found += step
        states = subtask.checkpoint()
    assert found == list(range(ROWS))


def test_files_that_wait_in_a_savepoint_of_another_parallelism_are_read(
    folder: pathlib.Path,
) -> None:
    table = describe("Source", [str(folder)])
    first = Subtask(ReadWatched(table, [[5]]), 5)
    for file in list_files("Source", [str(folder)]):
        list(first.function.process_element(file.path, first))
    again = Subtask(ReadWatched(table, [[7, 5, 3]]), 3, others={5: first.checkpoint()})
    assert list(again.function.process_element("", again)) == []
    found: list[int] = []
    while again.processing_timers:
        found += again.look()
    assert found == list(range(ROWS)) and not any(
        states.get("akdl_waiting") for states in again.others.values()
    )


@pytest.fixture
def stream_env(tmp_path: pathlib.Path) -> Iterator[Any]:
    config = {
        "execution.checkpointing.interval": "300 ms",
        "execution.checkpointing.dir": (tmp_path / "checkpoints").as_uri(),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "100 ms",
    }
    yield useLocalEnv(2, config=config).stenv
    resetEnv()


@pytest.mark.slow
@pytest.mark.flink
@pytest.mark.fault(
    "jobs",
    "Checkpoints of file sources complete behind a slow reader; a restart loses and doubles no row",
)
@pytest.mark.parametrize(
    "scan",
    [pytest.param({}, marks=pytest.mark.long), {"scanInterval": 0.2}],
    ids=["bounded", "watched"],
)
def test_checkpoints_complete_behind_a_slow_reader(
    stream_env: Any, scan: dict[str, Any], folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    def completed() -> int:
        return max(
            (
                int(path.parent.name[4:])
                for path in (tmp_path / "checkpoints").glob("*/chk-*/_metadata")
            ),
            default=0,
        )

    sink = Sink(stream_env, tmp_path)
    source = ParquetSourceStreamOp(filePath=str(folder), **scan)
    slow = StreamOperator.fromTable(slow_rows(source.getOutputTable(), 10_000, tmp_path / "fails"))
    client = (
        slow.select("0 AS worker, id").getOutputTable().execute_insert(sink.name).get_job_client()
    )
    wait_until(lambda: completed() >= 3, "checkpoints complete", 4 * DEADLINE_S)
    final = len(sink.final_rows())
    assert final < ROWS / 2  # in the middle of the files
    (tmp_path / "fails").touch()
    wait_until(lambda: not (tmp_path / "fails").exists(), "the job fails", 4 * DEADLINE_S)
    wait_until(lambda: len(sink.final_rows()) >= ROWS, "all rows are final", 4 * DEADLINE_S)
    if scan:
        client.cancel().result()
    else:
        client.get_job_execution_result().result()
    assert sorted(id for _, id in sink.final_rows()) == list(range(ROWS))
