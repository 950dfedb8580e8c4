"""Batch operators: printing and collecting."""

from __future__ import annotations

import pathlib
from contextlib import suppress

import pandas as pd
import pytest
from pyflink.table import StreamTableEnvironment

from bridge.exceptions import BridgeError, ConfigurationError
from operators import (
    BatchOperator,
    CsvSinkBatchOp,
    TableSourceBatchOp,
    TensorFlow2BatchOp,
    getMLEnv,
)


def numbers(table_env: StreamTableEnvironment, count: int) -> TableSourceBatchOp:
    values = ", ".join(f"({number})" for number in range(count))
    return BatchOperator.fromTable(table_env.sql_query(f"SELECT n FROM (VALUES {values}) AS v(n)"))


def test_execute_without_anything_to_run_is_refused() -> None:
    with suppress(ConfigurationError):  # a job of another test has run
        BatchOperator.execute()
    with pytest.raises(ConfigurationError, match="nothing to run: first call lazyPrint"):
        BatchOperator.execute()


@pytest.mark.flink
def test_print_shows_all_of_a_small_table(
    people: TableSourceBatchOp, capsys: pytest.CaptureFixture[str]
) -> None:
    assert people.print(title="People") is people
    assert capsys.readouterr().out == (
        "People\n   id  name score\n0   1   ann   0.5\n1   2   bob   1.5\n2   3  None   2.5\n"
    )


@pytest.mark.flink
def test_print_shows_both_ends_of_a_large_table(
    table_env: StreamTableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers(table_env, 21).print()
    assert len(capsys.readouterr().out.splitlines()) == 1 + 21
    numbers(table_env, 22).print()
    lines = capsys.readouterr().out.splitlines()
    shown = [line.split()[-1] for line in lines[1:]]
    assert shown == [*map(str, range(10)), "..", *map(str, range(12, 22))]


@pytest.mark.flink
def test_print_n_of_a_sorted_table_shows_its_first(
    table_env: StreamTableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    table_env.create_temporary_view("unsorted", numbers(table_env, 9).getOutputTable())
    by_size = BatchOperator.fromTable(table_env.sql_query("SELECT n FROM unsorted ORDER BY n DESC"))
    table_env.drop_temporary_view("unsorted")
    by_size.print(2)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["n"],
        ["0", "8"],
        ["1", "7"],
    ]
    by_size.print(-1)
    assert len(capsys.readouterr().out.splitlines()) == 10, "all rows"
    for wrong in ("2", True):
        with pytest.raises(ConfigurationError, match="print: expected a number of rows, got"):
            by_size.print(wrong)


@pytest.mark.flink
def test_lazy_print_waits_for_execute(
    people: TableSourceBatchOp, capsys: pytest.CaptureFixture[str]
) -> None:
    assert people.lazyPrint(title="later") is people
    assert capsys.readouterr().out == ""
    BatchOperator.execute()
    assert capsys.readouterr().out.startswith("later\n")
    with pytest.raises(ConfigurationError):
        BatchOperator.execute()


@pytest.mark.flink
def test_deferred_results_run_with_the_next_job_in_order(
    people: TableSourceBatchOp, capsys: pytest.CaptureFixture[str]
) -> None:
    ids: list[int] = []
    assert (
        people.select("id").lazyCollectToDataframe(lambda frame: ids.extend(frame.id)) is not None
    )
    people.orderBy("id", order="desc").lazyPrint(1, "first")
    people.where("id > 9").lazyPrint(title="none")
    people.select("score").print(title="last")
    assert sorted(ids) == [1, 2, 3]
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["first"], ["id", "name", "score"], ["0", "3", "None", "2.5"],
        ["none"], ["id,", "name,", "score"], ["(no", "rows)"],
        ["last"], ["score"], ["0", "0.5"], ["1", "1.5"], ["2", "2.5"],
    ]  # fmt: skip
    BatchOperator.execute()  # after a job that ran by itself, it is no error


@pytest.mark.flink
def test_a_job_that_fails_is_forgotten(people: TableSourceBatchOp) -> None:
    people.select("1 / (id - id) AS x").lazyPrint()
    with pytest.raises(BridgeError, match="(?i)by zero|zero"):
        BatchOperator.execute("a job with a name")
    assert len(people.collectToDataframe()) == 3


@pytest.mark.flink
@pytest.mark.tf
@pytest.mark.slow
def test_script_runs_once_for_all_deferred_results(
    table_env: StreamTableEnvironment, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, script = tmp_path / "runs", tmp_path / "copy_rows.py"
    script.write_text(
        "import os\n\n\n"
        "def main(task_config):\n"
        "    with open(os.environ['RUNS'], 'a') as file:\n"
        "        file.write('run\\n')\n"
        "    for batch in task_config.tf_context.batches(10):\n"
        "        task_config.output_writer.write_batch({'n': batch['n'].numpy()})\n"
    )
    op = TensorFlow2BatchOp(
        userFiles=[str(script)], mainScriptFile=str(script), outputSchemaStr="n INT", numWorkers=1, numPSs=0,
        envVars=[f"RUNS={runs}"],
    )  # fmt: skip
    copied = numbers(table_env, 3).link(op)
    copied.lazyPrint(title="rows").lazyPrintStatistics()
    copied.select("n + 1 AS m").link(CsvSinkBatchOp(filePath=str(tmp_path / "out.csv")))
    BatchOperator.execute()
    assert runs.read_text() == "run\n"
    assert (tmp_path / "out.csv").read_text() == "1\n2\n3\n"
    assert capsys.readouterr().out.startswith("rows\n   n\n0  0\n1  1\n2  2\n")


@pytest.mark.long
@pytest.mark.flink
def test_an_empty_result_keeps_its_columns(
    people: TableSourceBatchOp, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = people.where("id > 9")
    assert list(nobody.collectToDataframe().columns) == ["id", "name", "score"]
    assert len(nobody.print().collectToDataframe()) == 0
    assert capsys.readouterr().out == "id, name, score\n(no rows)\n"


@pytest.mark.flink
def test_a_dataframe_goes_in_and_comes_out(table_env: StreamTableEnvironment) -> None:
    assert getMLEnv().btenv is table_env
    frame = pd.DataFrame({"name": ["x", None], "id": [1, 2]})
    back = BatchOperator.fromDataframe(frame, "id LONG, name STRING").collectToDataframe()
    assert back.id.tolist() == [1, 2] and back.name.tolist() == ["x", None]
