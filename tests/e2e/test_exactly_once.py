"""Scripts that are killed at the worst moment: every row changes the state once, and its output
leaves once.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest

from operators import TensorFlow2StreamOp, resetEnv, useLocalEnv
from tests.e2e.streams import counting
from tests.e2e.test_stream_checkpoints import ENDLESS, PER_SECOND, checkpoints
from tests.support.leftovers import DEADLINE_S, wait_until

pytestmark = [pytest.mark.flink, pytest.mark.tf, pytest.mark.long]

ENOUGH = 1500
# The script has written its results, and has not asked for more: its rows are unfinished, also in
# the checkpoints that come then.
DIES = """
import glob, os, re, signal, time
def latest():
    return max([int(re.search("chk-([0-9]+)/", path)[1]) for path in glob.glob(CHECKPOINTS)], default=0)
def die():
    if not os.path.exists(KILLED):
        open(KILLED, "w").close()
        first = latest()
        while latest() < first + 2:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)
"""
PLAIN = """
def main(config):
    seen = 0
    for rows in config.tf_context.batches(50):
        config.output_writer.write_batch({"id": rows["id"], "total": rows["id"]})
        seen += len(rows["id"])
        if seen >= 500:
            die()
"""
LEARNS = """
import tensorflow as tf
def main(config):
    total = tf.Variable(0, dtype=tf.int64)
    config.checkpoint(tf.train.Checkpoint(total=total), every_rows=200)
    for rows in config.tf_context.batches(50):
        totals = total + tf.cumsum(rows["id"])
        total.assign(totals[-1])
        config.output_writer.write_batch({"id": rows["id"], "total": totals})
        if int(rows["id"][-1]) >= 1120:
            die()
"""


ARRAYS = """
import os
def main(config):
    total = [0]
    def save(folder):
        with open(os.path.join(folder, "total"), "w") as file:
            file.write(str(total[0]))
    def restore(folder):
        with open(os.path.join(folder, "total")) as file:
            total[0] = int(file.read())
    config.checkpoint(save, restore, every_rows=200)
    for rows in config.context.arrays(50):
        totals = total[0] + rows["id"].cumsum()
        total[0] = int(totals[-1])
        config.output_writer.write_batch({"id": rows["id"], "total": totals})
        if int(rows["id"][-1]) >= 1120:
            die()
"""


@pytest.mark.fault(
    "jobs", "A killed script repeats no row and loses none, nor does the state that it learns"
)
@pytest.mark.timeout(10 * DEADLINE_S)
def test_killed_scripts_give_each_row_once_and_learn_it_once(tmp_path: pathlib.Path) -> None:
    found = outputs_of_killed(tmp_path, {"plain": PLAIN, "learns": LEARNS, "arrays": ARRAYS})
    assert found["plain"] == [(id, id) for id in range(len(found["plain"]))]
    for name in ("learns", "arrays"):
        assert found[name] == [(id, id * (id + 1) // 2) for id in range(len(found[name]))]


def outputs_of_killed(
    tmp_path: pathlib.Path, texts: dict[str, str], **params: Any
) -> dict[str, list[tuple[Any, ...]]]:
    """Run scripts side by side on one stream until all have been killed and have written enough;
    return what is final.
    """
    table_env = useLocalEnv(1, checkpoints(tmp_path)).stenv
    # The source is slower than the scripts, and has no end: checkpoints wait for a script whose
    # input has ended.
    source = counting(table_env, ENDLESS, PER_SECOND)
    statements = table_env.create_statement_set()
    for name, text in texts.items():
        script = tmp_path / f"{name}.py"
        paths = {
            "KILLED": tmp_path / f"{name}.killed",
            "CHECKPOINTS": tmp_path / "checkpoints" / "*" / "chk-*" / "_metadata",
        }
        script.write_text(
            "".join(f"{what} = {str(path)!r}\n" for what, path in paths.items()) + DIES + text
        )
        table_env.execute_sql(
            f"CREATE TEMPORARY TABLE {name} (id BIGINT, total BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', "
            f"'path' = '{tmp_path / name}')"
        )
        op = TensorFlow2StreamOp(
            userFiles=[str(script)],
            mainScriptFile=str(script),
            numWorkers=1,
            numPSs=0,
            outputSchemaStr="id BIGINT, total BIGINT",
            **params,
        )
        statements.add_insert(name, source.link(op).getOutputTable())
    client = statements.execute().get_job_client()
    found: dict[str, list[tuple[Any, ...]]] = {}

    def are_enough() -> bool:
        found.update((name, _final(tmp_path / name)) for name in texts)
        return min(map(len, found.values())) >= ENOUGH

    wait_until(are_enough, "all have written enough", 8 * DEADLINE_S)
    client.cancel().result()
    resetEnv()
    assert all(os.path.exists(tmp_path / f"{name}.killed") for name in texts), "all were killed"
    return found


def _final(folder: pathlib.Path) -> list[tuple[Any, ...]]:
    lines = [line for path in folder.rglob("part-*") for line in path.read_text().splitlines()]
    return sorted(tuple(map(int, line.split(","))) for line in lines)
