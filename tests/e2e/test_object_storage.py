"""A storage that speaks S3 at both sides: files and records of Python, checkpoints and savepoints
of Flink.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from bridge.exceptions import BridgeError
from operators import ParquetSourceBatchOp, TensorFlow2BatchOp, getMLEnv, resetEnv, useLocalEnv
from tests.e2e.jobs import sequence
from tests.e2e.streams import Sink, counting, stop_with_savepoint
from tests.e2e.test_stream_checkpoints import (
    ENDLESS,
    PER_SECOND,
    checkpoints,
    committing_op,
    started_and_final,
)
from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.s3 import KEY, SECRET, ObjectStorage

pytestmark = [pytest.mark.flink, pytest.mark.slow]


@pytest.fixture(autouse=True)
def login(s3: ObjectStorage, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in s3.variables.items():
        monkeypatch.setenv(name, value)
    yield
    resetEnv()


def fails(task_config: Any) -> None:
    """Show all that it knows, and fail."""
    raise ValueError("on purpose")


@pytest.mark.fault("security", "Keys of an object storage are in no error, record or plan")
def test_keys_of_a_storage_are_shown_nowhere(
    s3: ObjectStorage, caplog: pytest.LogCaptureFixture
) -> None:
    useLocalEnv(1, config=s3.of_flink)
    rows, texts = sequence(getMLEnv().btenv, 10), [repr(getMLEnv())]
    variables = [f"{name}={value}" for name, value in s3.variables.items()]
    fed = rows.link(
        TensorFlow2BatchOp(
            mainScriptFile=fails,
            outputSchemaStr="id BIGINT",
            numWorkers=1,
            numPSs=0,
            logDir="s3://shop/failed_runs",
            envVars=variables,
        )
    )
    missing = ParquetSourceBatchOp(filePath="s3://nowhere/trips.parquet")
    for run in (fed.collectToDataframe, missing.collectToDataframe):
        with pytest.raises(BridgeError) as caught:
            run()
        texts += [str(caught.value), str(getattr(caught.value, "details", ""))]
    assert "on purpose" in texts[1] and "s3://nowhere/trips.parquet" in texts[3]
    texts += [fed.getOutputTable().explain(), caplog.text]
    files = s3.files()
    records = files.find("shop/failed_runs")
    assert records
    texts += [files.cat(each).decode(errors="replace") for each in records]
    for text in texts:
        assert SECRET not in text and KEY not in text, text


@pytest.mark.fault("jobs", "A stream continues from a savepoint in an object storage")
def test_stream_continues_from_a_savepoint_in_an_object_storage(
    s3: ObjectStorage, tmp_path: pathlib.Path
) -> None:
    config = {
        **checkpoints(tmp_path),
        **s3.of_flink,
        "execution.checkpointing.dir": "s3://shop/checkpoints",
    }
    table_env = useLocalEnv(1, config).stenv
    sink, (op, pid_file) = Sink(table_env, tmp_path), committing_op(tmp_path)
    counting(table_env, ENDLESS, PER_SECOND).link(op)
    client = op.getOutputTable().execute_insert(sink.name).get_job_client()
    wait_until(lambda: started_and_final(sink, pid_file), "rows are final", 2 * DEADLINE_S)
    assert any(name.endswith("/_metadata") for name in s3.files().find("shop/checkpoints"))
    savepoint = stop_with_savepoint(client, "s3://shop/savepoints")
    assert savepoint.startswith("s3://shop/savepoints/")
    resetEnv()
    table_env = useLocalEnv(1, {**config, "execution.state-recovery.path": savepoint}).stenv
    rest, (op, _) = Sink(table_env, tmp_path), committing_op(tmp_path)
    counting(table_env, ENDLESS, PER_SECOND).link(op)
    client = op.getOutputTable().execute_insert(rest.name).get_job_client()
    wait_until(rest.final_rows, "more rows are final", 4 * DEADLINE_S)
    last = max(number for _, number in rest.final_rows())
    wait_until(
        lambda: set(sink.counts()) | set(rest.counts()) >= set(range(last)),
        "no row is missing",
        4 * DEADLINE_S,
    )
    client.cancel().result()
