"""Every row arrives exactly once, whatever the number of workers, the mode and what comes
before.
"""

from __future__ import annotations

import os
import pathlib
import time

import pytest
from pyflink.table.udf import udf

from operators import BatchOperator, getMLEnv, useLocalEnv
from tests.e2e.jobs import script_op, sequence, shares_of
from tests.support.leftovers import DEADLINE_S, wait_until

pytestmark = pytest.mark.flink
SCHEMA = "worker INT, id BIGINT"


def check(
    found: dict[int, tuple[int, int, int]], rows: int, workers: int, encode_subtasks: int
) -> None:
    """All ids, each once; shares that differ by at most one row per encode subtask."""
    assert sum(n for n, _, _ in found.values()) == rows
    assert sum(d for _, d, _ in found.values()) == rows
    assert sum(s for _, _, s in found.values()) == rows * (rows - 1) // 2
    sizes = [found.get(worker, (0, 0, 0))[0] for worker in range(workers)]
    assert max(sizes) - min(sizes) <= encode_subtasks


@pytest.mark.parametrize("mode", ["btenv", "stenv"])
@pytest.mark.fault("data", "A job with fewer rows than workers succeeds")
def test_each_row_comes_once_whatever_the_number_of_rows_and_workers(mode: str) -> None:
    """How rows are dealt to any number of workers is in
    tests/bridge/flink/test_arrow_operators.py.
    """
    for parallelism, sizes in (
        (1, [(100_003, 1), (100_003, 2)]),
        (2, [(0, 3), (1, 3), (2, 3), (100_003, 3)]),
    ):
        useLocalEnv(parallelism)
        table_env = getattr(getMLEnv(), mode)
        found = shares_of(
            *(
                sequence(table_env, rows).link(script_op("echo_ids.py", SCHEMA, workers))
                for rows, workers in sizes
            )
        )
        for (rows, workers), by_worker in zip(sizes, found):
            check(by_worker, rows, workers, parallelism)


def test_rows_of_operators_that_emit_at_the_end_of_their_input_come_once() -> None:
    useLocalEnv(2)
    table_env = getMLEnv().btenv
    source = sequence(table_env, 20_001)
    table_env.create_temporary_view("t", source.getOutputTable())
    results = [
        source.fromTable(table_env.sql_query(query)).link(script_op("echo_ids.py", SCHEMA, 2))
        for query in ("SELECT id FROM t GROUP BY id", "SELECT id FROM t ORDER BY id DESC")
    ]
    table_env.drop_temporary_view("t")
    behind_a_script = (
        sequence(table_env, 20_001).link(script_op("echo_ids.py", SCHEMA, 2)).select("id")
    )
    results.append(behind_a_script.link(script_op("echo_ids.py", SCHEMA, 2)))
    for by_worker in shares_of(*results):
        check(by_worker, 20_001, 2, 2)


def test_a_script_may_end_before_it_has_read_its_rows() -> None:
    useLocalEnv(1)
    ended = sequence(getMLEnv().btenv, 200_000).link(script_op("quit_early.py", "x INT"))
    assert ended.collectToDataframe().x.tolist() == [1]


def test_rows_that_are_read_once_leave_nothing_on_disk() -> None:
    """With readOnce, rows wait in Flink. Without it, 2.4 MB of columns would lie there."""
    useLocalEnv(1)
    source = sequence(getMLEnv().btenv, 300_000)
    op = script_op("read_once.py", "`rows` BIGINT, total BIGINT, most BIGINT", readOnce=True)
    (found,) = source.link(op).collectToDataframe().itertuples(index=False)
    assert (found.rows, found.total) == (300_000, 300_000 * 299_999 // 2)
    assert found.most < 100_000  # the stacks of a failure, the socket


def test_a_table_with_updates_is_refused() -> None:
    useLocalEnv(1)
    table_env = getMLEnv().stenv
    source = sequence(table_env, 10)
    table_env.create_temporary_view("changing", source.getOutputTable())
    counted = table_env.sql_query("SELECT COUNT(*) AS id FROM changing")
    with pytest.raises(Exception, match="update"):
        source.fromTable(counted).link(script_op("echo_ids.py", SCHEMA, 1))


WRITES_MUCH = """
import os, time

def main(config):
    assert config.dataset_length == 10
    text = ["x" * 1000] * 1000
    for _ in range(40):
        config.output_writer.write_batch({"text": text})
    deadline = time.monotonic() + 60
    while not os.path.exists(config.user_params["go"]):  # the test makes it when rows have come out
        assert time.monotonic() < deadline, "nothing came out before the script ended"
        time.sleep(0.05)
    config.output_writer.write_batch({"text": ["the last"]})
"""


@pytest.mark.parametrize("mode", ["btenv", "stenv"])
def test_rows_come_out_while_the_script_goes_on_after_its_input(
    mode: str, tmp_path: pathlib.Path
) -> None:
    """Else the JVM would have to hold all that a script writes."""
    script, go, result = tmp_path / "writes_much.py", tmp_path / "go", tmp_path / "result"
    script.write_text(WRITES_MUCH)
    useLocalEnv(1)
    table_env = getattr(getMLEnv(), mode)
    op = script_op("echo_ids.py", "text STRING", userParams={"go": str(go)})
    op.setUserFiles([str(script)]).setMainScriptFile(str(script))
    sequence(table_env, 10).link(op)
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE much_{mode} (text STRING) WITH ('connector' = 'filesystem', 'path' = '{result}', 'format' = 'csv')"
    )
    job = op.getOutputTable().execute_insert(f"much_{mode}")
    wait_until(
        lambda: (
            sum(path.stat().st_size for path in result.rglob("*") if path.is_file()) > 1_000_000
        ),
        "rows came out",
        3 * DEADLINE_S,
    )
    go.touch()
    job.wait()
    lines = [
        line
        for path in result.rglob("*")
        if path.is_file()
        for line in path.read_text().splitlines()
    ]
    assert len(lines) == 40_001 and sum("the last" in line for line in lines) == 1


BEGINS = """
import pathlib

def main(config):
    pathlib.Path(config.user_params["begun"]).touch()
    config.output_writer.write_batch({"n": [config.dataset_length]})
"""


@pytest.mark.parametrize("mode", ["btenv", "stenv"])
def test_the_script_begins_while_its_rows_arrive(mode: str, tmp_path: pathlib.Path) -> None:
    """The last rows wait for it."""
    script, begun = tmp_path / "begins.py", str(tmp_path / "begun")
    script.write_text(BEGINS)
    useLocalEnv(1)
    table_env = getattr(getMLEnv(), mode)

    def has_begun(number: int) -> bool:
        deadline = time.monotonic() + 60
        while number > 0 and not os.path.exists(begun):
            assert time.monotonic() < deadline, "the script waits for its last row"
            time.sleep(0.05)
        return True

    table_env.create_temporary_function(f"has_begun_{mode}", udf(has_begun, result_type="BOOLEAN"))
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE slow_{mode} (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '2', "
        "'number-of-rows' = '4', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '3')"
    )
    op = script_op("echo_ids.py", "n BIGINT", userParams={"begun": begun})
    op.setUserFiles([str(script)]).setMainScriptFile(str(script))
    rows = BatchOperator.fromTable(
        table_env.sql_query(f"SELECT id FROM slow_{mode} WHERE has_begun_{mode}(id)")
    )
    assert rows.link(op).collectToDataframe().n.tolist() == [4]
