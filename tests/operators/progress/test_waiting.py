"""Jobs of plain PyFlink are waited for, and tables of Flink written, with errors for the user."""

from __future__ import annotations

import pathlib
import re

import pytest
from pyflink.table import StreamTableEnvironment

from bridge.exceptions import BridgeError, ConfigurationError
from operators import BatchOperator, TableSourceBatchOp, TensorFlow2BatchOp, waitForJob

pytestmark = pytest.mark.flink


def make_sink(table_env: StreamTableEnvironment, folder: pathlib.Path) -> str:
    name = f"written_{folder.name}"
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE {name} (id INT) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv')"
    )
    return name


def rows_in(folder: pathlib.Path) -> list[str]:
    return sorted(line for path in folder.rglob("part-*") for line in path.read_text().splitlines())


def test_rows_are_written_when_it_returns(
    table_env: StreamTableEnvironment, people: TableSourceBatchOp, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = people.select("id")
    first, second, third = (make_sink(table_env, tmp_path / name) for name in ("first", "second", "third"))
    assert ids.insertInto(first) is ids
    assert rows_in(tmp_path / "first") == ["1", "2", "3"]
    ids.lazyPrint()
    ids.insertInto(second)
    assert "id" in capsys.readouterr().out, "what was put off runs in the same job"
    assert rows_in(tmp_path / "second") == ["1", "2", "3"]
    BatchOperator.execute()  # does nothing, but a job has run
    statements = table_env.create_statement_set()
    statements.add_insert(third, ids.getOutputTable())
    waitForJob(statements)
    assert rows_in(tmp_path / "third") == ["1", "2", "3"]


def test_what_fails_says_so_in_one_line(table_env: StreamTableEnvironment, people: TableSourceBatchOp) -> None:
    with pytest.raises(BridgeError, match=r"^Flink: .*Cannot find table .*nowhere") as caught:
        people.insertInto("nowhere")
    assert len(str(caught.value).splitlines()) <= 3
    table_env.execute_sql("CREATE TEMPORARY TABLE IF NOT EXISTS black (id INT) WITH ('connector' = 'blackhole')")
    with pytest.raises(BridgeError, match="^Flink: java.lang.ArithmeticException: / by zero$"):
        waitForJob(table_env.execute_sql("INSERT INTO black SELECT 1 / (x - x) FROM (VALUES (1)) AS v(x)"))


def test_what_is_no_job(table_env: StreamTableEnvironment) -> None:
    with pytest.raises(ConfigurationError, match="expected a TableResult or a StatementSet of PyFlink, got a str"):
        waitForJob("INSERT INTO black SELECT 1")
    with pytest.raises(ConfigurationError, match="no job"):
        waitForJob(table_env.execute_sql("SHOW TABLES"))


def test_what_scripts_do_meanwhile_is_shown(
    table_env: StreamTableEnvironment,
    people: TableSourceBatchOp,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AKDL_PROGRESS", "1")
    script = tmp_path / "seven.py"
    script.write_text("def main(config):\n    config.output_writer.write_batch({'id': [7]})\n")
    op = TensorFlow2BatchOp(mainScriptFile=str(script), outputSchemaStr="id INT", numWorkers=1, numPSs=0)
    sevens = people.select("id").link(op).getOutputTable()
    result = sevens.execute_insert(make_sink(table_env, tmp_path / "sevens"))
    waitForJob(result)
    assert re.fullmatch(r"seven\.py: 3 rows in, 1 out, \d+ s: .*", capsys.readouterr().err.splitlines()[-1])
    waitForJob(result)
    assert capsys.readouterr().err == "", "what has been told once is not told again"
    assert rows_in(tmp_path / "sevens") == ["7"]
