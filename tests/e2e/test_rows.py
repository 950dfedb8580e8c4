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
from tests.e2e.jobs import by_worker, frames, script_op, sequence, shares_of
from tests.support.leftovers import DEADLINE_S, wait_until

pytestmark = pytest.mark.flink
SCHEMA = "worker INT, id BIGINT"


def echo(source: BatchOperator, workers: int) -> BatchOperator:
    return source.link(script_op("echo_ids.py", SCHEMA, workers))


def check(
    found: dict[int, tuple[int, int, int]], rows: int, workers: int, encode_subtasks: int
) -> None:
    """All ids, each once; shares that differ by at most one row per encode subtask."""
    assert sum(n for n, _, _ in found.values()) == rows
    assert sum(d for _, d, _ in found.values()) == rows
    assert sum(s for _, _, s in found.values()) == rows * (rows - 1) // 2
    sizes = [found.get(worker, (0, 0, 0))[0] for worker in range(workers)]
    assert max(sizes) - min(sizes) <= encode_subtasks


SIZES = [(0, 2), (1, 3), (100_003, 3)]  # rows and workers


def check_each(found: list[dict[int, tuple[int, int, int]]]) -> None:
    assert len(found) == len(SIZES)
    for (rows, workers), each in zip(SIZES, found):
        check(each, rows, workers, 2)


@pytest.mark.fault("data", "A job with fewer rows than workers succeeds")
def test_each_row_of_a_bounded_stream_arrives_once() -> None:
    table_env = useLocalEnv(2).stenv
    check_each(shares_of(*(echo(sequence(table_env, rows), workers) for rows, workers in SIZES)))


@pytest.mark.long
def test_each_row_of_a_batch_arrives_once() -> None:
    table_env = useLocalEnv(2).btenv
    found = frames(*(echo(sequence(table_env, rows), workers) for rows, workers in SIZES))
    check_each([by_worker(frame) for frame in found])


def test_each_row_of_a_batch_arrives_once_behind_operators_of_all_kinds() -> None:
    """One job: operators that emit at the end of their input, a script behind a script, one that
    ends before it has read its rows, and one that reads them once: those wait in Flink, while
    2.4 MB of columns would lie on disk else.

    How rows are dealt to any number of workers is in tests/bridge/flink/test_arrow_operators.py.
    """
    table_env = useLocalEnv(2).btenv
    source = sequence(table_env, 20_001)
    table_env.create_temporary_view("t", source.getOutputTable())
    queries = ("SELECT id FROM t GROUP BY id", "SELECT id FROM t ORDER BY id DESC")
    behind = [source.fromTable(table_env.sql_query(query)) for query in queries]
    table_env.drop_temporary_view("t")
    behind.append(echo(source, 2).select("id"))
    many = sequence(table_env, 300_000)
    once = script_op("read_once.py", "`rows` BIGINT, total BIGINT, most BIGINT", readOnce=True)
    *shown, ended, read_once = frames(
        *(echo(each, 2) for each in behind),
        many.link(script_op("quit_early.py", "x INT")),
        many.link(once),
    )
    for frame in shown:
        check(by_worker(frame), 20_001, 2, 2)
    assert ended.x.tolist() == [1]
    (row,) = read_once.itertuples(index=False)
    assert (row.rows, row.total) == (300_000, 300_000 * 299_999 // 2)
    assert row.most < 100_000  # the stacks of a failure, the socket


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
    deadline = time.monotonic() + LIMIT_S
    while not os.path.exists(config.user_params["go"]):  # the test makes it when rows have come out
        assert time.monotonic() < deadline, "nothing came out before the script ended"
        time.sleep(0.05)
    config.output_writer.write_batch({"text": ["the last"]})
""".replace("LIMIT_S", f"{3 * DEADLINE_S}")
BEGINS = """
import pathlib

def main(config):
    pathlib.Path(config.user_params["begun"]).touch()
    config.output_writer.write_batch({"text": [f"{config.dataset_length} rows"]})
"""


@pytest.mark.parametrize("mode", [pytest.param("btenv", marks=pytest.mark.long), "stenv"])
def test_script_reads_and_writes_before_its_input_has_ended(
    mode: str, tmp_path: pathlib.Path
) -> None:
    """Two scripts of one job. The last rows of one wait for it; if those of the other waited for
    its end, the JVM would have to hold all that a script writes.
    """
    go, begun = tmp_path / "go", str(tmp_path / "begun")
    useLocalEnv(2)
    table_env = getattr(getMLEnv(), mode)

    def has_begun(number: int) -> bool:
        deadline = time.monotonic() + 3 * DEADLINE_S
        while number > 0 and not os.path.exists(begun):
            assert time.monotonic() < deadline, "the script waits for its last row"
            time.sleep(0.05)
        return True

    table_env.create_temporary_function(f"has_begun_{mode}", udf(has_begun, result_type="BOOLEAN"))
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE slow_{mode} (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '4', "
        "'number-of-rows' = '4', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '3')"
    )
    slow = BatchOperator.fromTable(
        table_env.sql_query(f"SELECT id FROM slow_{mode} WHERE has_begun_{mode}(id)")
    )
    job = table_env.create_statement_set()
    for name, text, source in (
        ("much", WRITES_MUCH, sequence(table_env, 10)),
        ("begins", BEGINS, slow),
    ):
        script = tmp_path / f"{name}.py"
        script.write_text(text)
        op = script_op("echo_ids.py", "text STRING", userParams={"go": str(go), "begun": begun})
        op.setUserFiles([str(script)]).setMainScriptFile(str(script))
        table_env.execute_sql(
            f"CREATE TEMPORARY TABLE {name}_{mode} (text STRING) WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path / 'out' / name}', 'format' = 'csv')"
        )
        job.add_insert(f"{name}_{mode}", source.link(op).getOutputTable())

    def written(name: str) -> list[pathlib.Path]:
        return [path for path in (tmp_path / "out" / name).rglob("*") if path.is_file()]

    running = job.execute()
    wait_until(
        lambda: sum(path.stat().st_size for path in written("much")) > 1_000_000,
        "rows came out",
        3 * DEADLINE_S,
    )
    go.touch()
    running.wait()
    lines = [line for path in written("much") for line in path.read_text().splitlines()]
    assert len(lines) == 40_001 and sum("the last" in line for line in lines) == 1
    assert [path.read_text() for path in written("begins") if path.stat().st_size] == ['"4 rows"\n']
