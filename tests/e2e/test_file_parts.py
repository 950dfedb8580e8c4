"""Files whose parts the members of a group read themselves, on the embedded mini cluster."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bridge.exceptions import ConfigurationError
from operators import (
    BatchOperator,
    JsonSourceBatchOp,
    MemSourceBatchOp,
    ParquetSinkBatchOp,
    ParquetSourceBatchOp,
    TFSavedModelPredictBatchOp,
    resetEnv,
    useCustomEnv,
    useLocalEnv,
)
from tests.akdl.serving import models
from tests.e2e.jobs import script_op
from tests.e2e.test_groups import SCHEMA, seen

pytestmark = pytest.mark.flink

ROWS, GROUP = 1003, 100
RESTARTS = {
    "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "2",
    "restart-strategy.fixed-delay.delay": "10 ms",
}  # fmt: skip
KILLED_ONCE = """
import os, signal
from tfrecords import examples

def main(config):
    worker = 0 if config.task_type == "chief" else config.task_index + 1
    marker = config.user_params["marker"] + str(worker)
    if not os.path.exists(marker):
        open(marker, "w").close()
        if worker == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    ids = [feature["id"].int64_list.value[0] for feature in examples(config.dataset_file)]
    config.output_writer.write_batch({"worker": [worker] * len(ids), "id": ids})
"""


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    resetEnv()


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> str:
    """Two files with the ids from 0 to 1002, in groups of 100; the last group of each has fewer."""
    (tmp_path / "in").mkdir()
    for name, rows in (("b", range(550, ROWS)), ("a", range(550))):
        table = pa.table({"text": [f"n{row}" for row in rows], "id": rows})
        pq.write_table(table, tmp_path / "in" / f"{name}.parquet", row_group_size=GROUP)
    return str(tmp_path / "in")


def groups_of(numbers: list[int]) -> set[int]:
    return {id_ // GROUP if id_ < 550 else 6 + (id_ - 550) // GROUP for id_ in numbers}


def test_members_read_whole_groups_in_equal_shares(folder: str) -> None:
    useLocalEnv(2)
    source = ParquetSourceBatchOp(filePath=folder).select(["id"])
    op = source.link(script_op("roles.py", SCHEMA, 3, equalSteps="pad").setNumPSs(1))
    found = seen(op)
    assert {len(worker["ids"]) for worker in found.values()} == {335}
    real = {
        role: [id_ for id_, weight in zip(each["ids"], each["weights"]) if weight]
        for role, each in found.items()
    }
    assert sorted(id_ for numbers in real.values() for id_ in numbers) == list(range(ROWS))
    assert sum(len(groups_of(numbers)) for numbers in real.values()) - 11 <= 2, (
        "few groups have several readers"
    )
    assert real["chief 0"][:200] == [*range(100), *range(300, 400)]


def test_filter_and_extra_input_work_in_a_streaming_environment(folder: str) -> None:
    env = useLocalEnv(2)
    useCustomEnv(env.senv, env.stenv)
    source = ParquetSourceBatchOp(filePath=folder, filter="id < 200 OR id >= 900").select(
        "`id`, text"
    )
    extra = MemSourceBatchOp([("x",)], "s STRING")
    op = script_op("extra_inputs.py", "worker INT, found STRING", 2, shuffleParts=1).linkFrom(
        source, extra
    )
    found = {row.worker: json.loads(row.found) for row in op.collectToDataframe().itertuples()}
    assert sum(length for length, _ in found.values()) == 303 and sorted(found) == [0, 1]
    assert [inputs[0]["rows"] for _, inputs in found.values()] == [[{"s": "'x'"}]] * 2


@pytest.mark.fault(
    "data", "A TensorFlow process that is killed while files are read loses and doubles no row"
)
def test_a_killed_process_reads_its_share_again(folder: str, tmp_path: pathlib.Path) -> None:
    useLocalEnv(2, RESTARTS)
    script = tmp_path / "killed_once.py"
    script.write_text(KILLED_ONCE)
    op = script_op(
        "echo_ids.py", "worker INT, id BIGINT", 2, userParams={"marker": str(tmp_path / "marker")}
    )
    op.setUserFiles([str(script), op.getUserFiles()[1]]).setMainScriptFile(str(script))
    ParquetSourceBatchOp(filePath=folder).select("id").link(op).link(
        ParquetSinkBatchOp(filePath=f"{tmp_path}/out/")
    )
    BatchOperator.execute()
    assert (tmp_path / "marker1").exists()
    found = pq.read_table(tmp_path / "out")
    assert sorted(found["id"].to_pylist()) == list(range(ROWS))
    assert sorted(found["worker"].value_counts().field("counts").to_pylist()) == [501, 502]


@pytest.mark.long
@pytest.mark.tf
def test_a_predictor_reads_files(folder: str, tmp_path: pathlib.Path) -> None:
    useLocalEnv(2)
    for path in pathlib.Path(folder).iterdir():
        table = pq.read_table(path)
        arrays = pa.array(
            [None if id_ == 7 else [id_, 0.5, 0.5] for id_ in table["id"].to_pylist()],
            pa.list_(pa.float32()),
        )
        pq.write_table(
            table.append_column("x", arrays).append_column("k", table["id"]),
            path,
            row_group_size=GROUP,
        )
    predict = TFSavedModelPredictBatchOp(
        modelPath=models.scaled(2.0),
        outputSchemaStr="p FLOAT",
        selectedCols=["x", "k"],
        reservedCols=["text"],
        errorCol="wrong",
    )
    source = ParquetSourceBatchOp(filePath=folder, filter="id <> 3").select("text, k, x")
    source.link(predict).link(ParquetSinkBatchOp(filePath=f"{tmp_path}/out/"))
    BatchOperator.execute()
    found = {row["text"]: row for row in pq.read_table(tmp_path / "out").to_pylist()}
    assert found.pop("n7")["p"] is None and set(found) == {f"n{id_}" for id_ in range(ROWS)} - {
        "n3",
        "n7",
    }
    assert all(
        row["p"] == 2 * int(text[1:]) + 2 and row["wrong"] is None for text, row in found.items()
    )


def test_a_seed_needs_files_in_groups(folder: str, tmp_path: pathlib.Path) -> None:
    def link(source: Any) -> Any:
        return source.link(script_op("echo_ids.py", "worker INT, id BIGINT", shuffleParts=1))

    env = useLocalEnv(2)
    (tmp_path / "a.json").write_text('{"id": 1}\n')
    source: BatchOperator = ParquetSourceBatchOp(filePath=folder)
    for other in (
        JsonSourceBatchOp(filePath=str(tmp_path / "a.json")),
        source.select("id + 1 AS id"),
        source.filter("id > 1"),
    ):
        with pytest.raises(
            ConfigurationError,
            match="TensorFlow2BatchOp: shuffleParts shuffles groups of rows in files: link",
        ):
            link(other)
    link(source)
    env.stenv.get_config().set("execution.checkpointing.interval", "1 s")
    useCustomEnv(env.senv, env.stenv)
    with pytest.raises(ConfigurationError, match="in an environment without checkpoints"):
        link(ParquetSourceBatchOp(filePath=folder))
