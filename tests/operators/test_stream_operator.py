"""Streams are printed while their job runs, several in one job."""

from __future__ import annotations

import pathlib

import pytest

from bridge.exceptions import BridgeError, ConfigurationError
from operators import CsvSourceStreamOp, MLEnv, StreamOperator, getMLEnv, useLocalEnv
from tests.support.leftovers import DEADLINE_S, wait_until


@pytest.mark.parametrize("wrong", [0.5, True])
def test_print_refuses_a_wrong_number_of_rows(wrong: float | bool) -> None:
    with pytest.raises(ConfigurationError, match="print: expected a number of rows, got"):
        StreamOperator().print(wrong)


def test_execute_needs_something_to_print() -> None:
    for run in (StreamOperator.execute, StreamOperator.executeAsync):
        with pytest.raises(ConfigurationError, match="call print"):
            run()


@pytest.mark.flink
def test_streams_of_two_environments_are_not_one_job(env: MLEnv) -> None:
    for each in (env, useLocalEnv(1)):
        StreamOperator.fromTable(each.stenv.sql_query("SELECT 1 AS a")).print()
    with pytest.raises(
        ConfigurationError, match="all printed streams must belong to one environment"
    ):
        StreamOperator.execute()
    with pytest.raises(ConfigurationError, match="call print"):
        StreamOperator.execute()  # they are not tried again


@pytest.mark.flink
def test_two_prints_in_one_job_with_nulls_and_updates(
    env: MLEnv, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    useLocalEnv(1)  # where the source makes its table
    (tmp_path / "a.csv").write_text("1,x\n2,\n")
    source = (
        CsvSourceStreamOp().setFilePath(str(tmp_path / "a.csv")).setSchemaStr("a INT, b STRING")
    )
    table_env = getMLEnv().stenv
    views = table_env.list_temporary_views()
    assert source.print() is source
    source.select("a + 1 AS c").print(1, title="next")
    source.select("COUNT(*) AS n").print(-1, key="count", refreshInterval=1, maxLimit=10)
    StreamOperator.execute("two prints")
    assert "pipeline.name" not in table_env.get_config().get_configuration().to_dict()
    assert table_env.list_temporary_views() == views
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if ":" not in line] == ["a, b", "1, x", "2, null"]
    assert [line for line in lines if line.startswith("next")] == ["next: c", "next: 2"], (
        "one row was asked for"
    )
    assert [line for line in lines if line.startswith("count")] == [
        "count: n",
        "count: 1",
        "count: -U 1",
        "count: +U 2",
    ]


@pytest.mark.flink
def test_a_failed_job_is_an_error_of_wait(env: MLEnv) -> None:
    StreamOperator.fromTable(
        env.stenv.sql_query("SELECT 1 / (a - a) AS b FROM (VALUES (1), (2)) AS v(a)")
    ).print()
    with pytest.raises(BridgeError, match="(?i)by zero|zero"):
        StreamOperator.execute()


@pytest.mark.flink
def test_a_job_goes_on_until_it_is_cancelled(
    env: MLEnv, capsys: pytest.CaptureFixture[str]
) -> None:
    env.stenv.execute_sql(
        "CREATE TEMPORARY TABLE endless (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100', "
        "'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '1000000')"
    )
    StreamOperator.fromTable(env.stenv.from_path("endless")).print(2)
    job, shown = StreamOperator.executeAsync(), []

    def rows_are_shown() -> bool:
        shown.extend(capsys.readouterr().out.splitlines())
        return len(shown) >= 3

    try:
        wait_until(rows_are_shown, "the first rows are shown", 4 * DEADLINE_S)
        assert not job.wait(0)
    finally:
        job.cancel()
    job.cancel()
    assert job.wait(0) and shown == ["id", "0", "1"]
