"""The graph of a script operator: what is in it, and one job that runs it as it is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from bridge.flink.script_graph import MOST_MEMBERS, run_script
from bridge.flink.time_attributes import time_attributes
from bridge.schema import Schema
from bridge.settings import MAX_PARALLELISM, GroupSettings, UserFile
from operators import useLocalEnv
from tests.e2e.jobs import SCRIPTS

pytestmark = pytest.mark.flink
_groups = itertools.count()


@pytest.fixture(scope="module")
def table_envs() -> Any:
    return useLocalEnv(2)


@pytest.fixture(params=["STREAMING", pytest.param("BATCH", marks=pytest.mark.long)])
def table_env(request: pytest.FixtureRequest, table_envs: Any) -> Any:
    return table_envs.stenv if request.param == "STREAMING" else table_envs.btenv


def settings(**changes: Any) -> GroupSettings:
    files = tuple(
        UserFile(name, (SCRIPTS / name).read_bytes()) for name in ("echo_ids.py", "tfrecords.py")
    )
    values: dict[str, Any] = {"kind": "batch", "num_workers": 2, "num_ps": 1, **changes}
    return GroupSettings(
        operator="TestOp", input_schema=Schema.parse("id BIGINT"), output_schema=Schema.parse("worker INT, id BIGINT"),
        main_script="echo_ids.py", user_files=files, **values,
    )  # fmt: skip


def run(
    table_env: Any, group: GroupSettings, sql: str = "SELECT * FROM (VALUES (1), (2), (3)) AS t(id)"
) -> tuple[Any, str]:
    name = f"graph_{next(_groups)}"
    table = table_env.sql_query(f"SELECT CAST(id AS BIGINT) AS id FROM ({sql})")
    return run_script(table_env, table, [], group, name)[0], name


def transformations(table_env: Any, table: Any) -> Iterator[Any]:
    """Yield every node of the graph before a table."""
    found = [table_env.to_data_stream(table)._j_data_stream.getTransformation()]
    while found:
        yield found[-1]
        found.extend(found.pop().getInputs())


def keyed_functions(table_env: Any, table: Any) -> dict[str, Any]:
    return {
        node.getName(): node
        for node in transformations(table_env, table)
        if node.getName().startswith("TestOp")
    }


def test_both_functions_have_a_subtask_per_member_in_the_same_place(table_env: Any) -> None:
    table, group = run(table_env, settings())
    found = keyed_functions(table_env, table)
    assert set(found) == {"TestOp, echo_ids.py", "TestOp, echo_ids.py, addresses"}
    for node in found.values():
        assert (node.getParallelism(), node.getMaxParallelism()) == (3, MAX_PARALLELISM)
        assert node.getCoLocationGroupKey() == group


def test_batch_mode_sorts_neither_chunks_nor_addresses(table_envs: Any) -> None:
    table, _ = run(table_envs.btenv, settings())
    found = keyed_functions(table_envs.btenv, table)
    assert found["TestOp, echo_ids.py, addresses"].getStateKeySelector() is None
    assert found["TestOp, echo_ids.py, addresses"].getBufferTimeout() == 0
    assert (
        found["TestOp, echo_ids.py"].getStateKeySelector1() is not None
        and found["TestOp, echo_ids.py"].getStateKeySelector2() is None
    )


def test_a_stream_keeps_the_keys_of_its_chunks(table_envs: Any) -> None:
    table, _ = run(table_envs.stenv, settings(kind="stream"))
    assert (
        keyed_functions(table_envs.stenv, table)["TestOp, echo_ids.py"].getStateKeySelector2()
        is not None
    )


def test_chunks_of_a_stream_wait_in_no_buffer(table_envs: Any) -> None:
    """With Flink's 100 ms the rows of a stream took 120 ms to a script and back, at 10 ms in a
    chunk.
    """
    table, _ = run(table_envs.stenv, settings(kind="stream"))
    (chunks,) = {
        node for node in transformations(table_envs.stenv, table) if node.getName() == "RowsToArrow"
    }
    assert chunks.getBufferTimeout() == 0


def test_the_result_has_the_columns_of_the_output_and_its_event_time(table_envs: Any) -> None:
    group = settings(kind="stream", watermark=("id_time", "id_time - INTERVAL '1' SECOND"))
    group = GroupSettings(
        **{**vars(group), "output_schema": Schema.parse("id BIGINT, id_time TIMESTAMP(3)")}
    )
    table, _ = run(table_envs.stenv, group)
    assert list(table.get_resolved_schema().get_column_names()) == ["id", "id_time"]
    assert time_attributes(table) == {"id_time": "ROWTIME"}


def test_group_with_too_many_processes_is_refused(table_envs: Any) -> None:
    with pytest.raises(
        ConfigurationError,
        match=f"numWorkers . numPSs is {MOST_MEMBERS + 1}, but one group has at most {MOST_MEMBERS}",
    ):
        run(table_envs.btenv, settings(num_workers=MOST_MEMBERS))


def test_a_large_group_has_a_key_for_each_process(table_envs: Any) -> None:
    table, _ = run(table_envs.btenv, settings(num_workers=MAX_PARALLELISM + 7, num_ps=0))
    (exchange,) = {
        node
        for node in transformations(table_envs.btenv, table)
        if node.getName() == "TestOp, echo_ids.py"
    }
    assert (exchange.getParallelism(), exchange.getMaxParallelism()) == (
        MAX_PARALLELISM + 7,
        MAX_PARALLELISM + 7,
    )


def test_operators_have_names_of_their_own(table_env: Any) -> None:
    table, _ = run(table_env, settings())
    names = {node.getUid() for node in transformations(table_env, table)} - {None}
    assert {name.rpartition("-")[2] for name in names} == {
        "rows",
        "addresses",
        "exchange",
        "result",
    }


def test_rows_go_to_workers_in_turn_and_come_back(table_env: Any) -> None:
    rows, _ = run(
        table_env, settings(num_ps=0), "SELECT * FROM (VALUES (1), (2), (3), (4), (5)) AS t(id)"
    )
    with rows.execute().collect() as found:
        pairs = [tuple(row) for row in found]
    assert sorted(id for _, id in pairs) == [1, 2, 3, 4, 5]
    assert sorted(worker for worker, _ in pairs) in ([0, 0, 0, 1, 1], [0, 0, 1, 1, 1])


@pytest.mark.long
def test_jobs_of_an_elastic_group_have_other_numbers_of_workers(table_envs: Any) -> None:
    """An operator that was planned behind the group keeps its own parallelism."""
    ids = ", ".join(f"({each})" for each in range(12))
    table = table_envs.btenv.sql_query(
        f"SELECT CAST(id AS BIGINT) AS id FROM (VALUES {ids}) AS t(id)"
    )
    extra = table_envs.btenv.sql_query("SELECT CAST(1 AS BIGINT) AS id")
    group = settings(
        num_workers=3, num_ps=1, least_workers=1, extra_schemas=(Schema.parse("id BIGINT"),)
    )
    written, resize = run_script(table_envs.btenv, table, [extra], group, f"graph_{next(_groups)}")
    assert resize is not None
    counted, _ = run(
        table_envs.btenv, settings(num_workers=1, num_ps=0), f"SELECT id FROM {written}"
    )
    for workers in (2, 3, 1):
        resize(workers)
        with written.execute().collect() as rows:
            shares = [(worker, id_) for worker, id_ in rows]
        assert sorted(id_ for _, id_ in shares) == list(range(12))
        assert {worker for worker, _ in shares} == set(range(workers))
        with counted.execute().collect() as rows:
            assert len(list(rows)) == 12
