"""What a restart by Flink may do: begin again, but never go on with rows missing."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

from bridge.exceptions import BridgeError
from operators import BatchOperator, resetEnv, useCustomEnv, useLocalEnv
from operators.errors.flink_errors import readable
from tests.e2e.jobs import script_op, sequence

pytestmark = pytest.mark.flink

FAILS_ONCE = """
import glob, os, time
from tfrecords import examples

def checkpoints(folder):
    return set(glob.glob(folder + "/*/chk-*/_metadata"))

def main(config):
    marker = config.user_params["marker"]
    if not os.path.exists(marker):
        open(marker, "w").close()
        time.sleep(1)  # while rows arrive
        folder = config.user_params["checkpoints"]
        before = checkpoints(folder)
        while folder and checkpoints(folder) <= before:
            time.sleep(0.05)
        raise ValueError("once")
    ids = [feature["id"].int64_list.value[0] for feature in examples(config.dataset_file)]
    with open(marker, "w") as file:
        file.write("{} {}".format(len(ids), len(set(ids))))
"""


@pytest.fixture
def run_slowly(tmp_path: pathlib.Path) -> Iterator[Callable[..., str]]:
    """Feed rows, 500 a second, to a script that fails once, in an environment that restarts a
    failed job once.
    """

    def run(rows: int, **extra: Any) -> str:
        config = Configuration()
        options = {
            "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "1",
            "restart-strategy.fixed-delay.delay": "100 ms", **extra,
        }  # fmt: skip
        for key, value in options.items():
            config.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(config)
        env.set_parallelism(1)
        table_env = StreamTableEnvironment.create(env)
        useCustomEnv(env, table_env)
        table_env.execute_sql(
            "CREATE TEMPORARY TABLE ids (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '500', "
            f"'number-of-rows' = '{rows}', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '{rows - 1}')"
        )
        script = tmp_path / "fails_once.py"
        script.write_text(FAILS_ONCE)
        params = {
            "marker": str(tmp_path / "marker"),
            "checkpoints": str(tmp_path / "checkpoints") if extra else "",
        }
        op = script_op("echo_ids.py", "worker INT, id BIGINT", userParams=params)
        op.setUserFiles([str(script), op.getUserFiles()[1]]).setMainScriptFile(str(script))
        table_env.execute_sql(
            "CREATE TEMPORARY TABLE nothing (worker INT, id BIGINT) WITH ('connector' = 'blackhole')"
        )
        linked = BatchOperator.fromTable(table_env.from_path("ids")).link(op)
        linked.getOutputTable().execute_insert("nothing").wait()
        return (tmp_path / "marker").read_text()

    yield run
    resetEnv()


@pytest.mark.slow
@pytest.mark.fault("jobs", "A batch job without checkpoints restarts from the beginning")
def test_without_checkpoints_a_restart_begins_again(
    run_slowly: Callable[..., str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_slowly(1500) == "1500 1500"
    printed = capfd.readouterr().err
    assert (
        "akdl: TensorFlow2BatchOp: Flink has restarted it, attempt 2, because of a failure:"
        in printed
    )
    assert "ValueError: once" in printed


@pytest.mark.slow
@pytest.mark.fault(
    "jobs", "A batch job that restarts from a checkpoint is an error, as rows would be missing"
)
def test_with_checkpoints_missing_rows_are_an_error(
    run_slowly: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    folder = (tmp_path / "checkpoints").as_uri()
    with pytest.raises(Exception) as caught:
        run_slowly(
            200_000,
            **{  # no checkpoint passes the script once all rows are there
                "execution.checkpointing.interval": "300 ms",
                "execution.checkpointing.dir": folder,
            },
        )
    error = readable(caught.value)
    assert isinstance(error, BridgeError)
    assert "restarted the job from a checkpoint, but the" in str(error)


@pytest.mark.fault("jobs")
def test_restarts_that_are_used_up_end_in_the_error_of_the_script(tmp_path: pathlib.Path) -> None:
    config = {
        "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "2",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }  # fmt: skip
    script = tmp_path / "fails.py"
    begun = tmp_path / "begun"
    script.write_text(
        f"def main(config):\n    open({str(begun)!r}, 'a').write('x')\n    raise ValueError('each time')\n"
    )
    op = (
        script_op("echo_ids.py", "id BIGINT")
        .setUserFiles([str(script)])
        .setMainScriptFile(str(script))
    )
    table_env = useLocalEnv(1, config).btenv
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE nothing (id BIGINT) WITH ('connector' = 'blackhole')"
    )
    with pytest.raises(BridgeError, match="the script failed: ValueError: each time"):
        sequence(table_env, 3).link(op).insertInto("nothing")
    resetEnv()
    assert begun.read_text() == "xxx"
