"""Jobs of plain PyFlink are waited for, and tables of Flink written, with errors for the user."""

from __future__ import annotations

import pathlib
import re

import pytest
from pyflink.table import StreamTableEnvironment

from bridge.exceptions import BridgeError, ConfigurationError
from bridge.member.registry import forget_groups, note
from bridge.member.status import ENDED, FEEDING, WORK
from operators import BatchOperator, TableSourceBatchOp, TensorFlow2BatchOp, waitForJob
from operators.flink.rest import Rest
from operators.progress import waiting
from operators.progress.display import SWITCH
from operators.progress.state import Shown
from operators.progress.waiting import note_linked, note_told, shown_if_seen
from tests.support.statuses import status_of


def make_sink(table_env: StreamTableEnvironment, folder: pathlib.Path) -> str:
    name = f"written_{folder.name}"
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE {name} (id INT) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv')"
    )
    return name


def rows_in(folder: pathlib.Path) -> list[str]:
    return sorted(line for path in folder.rglob("part-*") for line in path.read_text().splitlines())


@pytest.mark.flink
def test_insert_into_and_wait_for_job_return_when_rows_are_written(
    table_env: StreamTableEnvironment,
    people: TableSourceBatchOp,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ids = people.select("id")
    first, second, third = (
        make_sink(table_env, tmp_path / name) for name in ("first", "second", "third")
    )
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


@pytest.mark.flink
def test_failing_statements_and_jobs_are_short_errors(
    table_env: StreamTableEnvironment, people: TableSourceBatchOp
) -> None:
    with pytest.raises(BridgeError, match=r"^Flink: .*Cannot find table .*nowhere") as caught:
        people.insertInto("nowhere")
    assert len(str(caught.value).splitlines()) <= 3
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE IF NOT EXISTS black (id INT) WITH ('connector' = 'blackhole')"
    )
    with pytest.raises(BridgeError, match="^Flink: java.lang.ArithmeticException: / by zero$"):
        waitForJob(
            table_env.execute_sql("INSERT INTO black SELECT 1 / (x - x) FROM (VALUES (1)) AS v(x)")
        )


@pytest.mark.flink
def test_wait_for_job_refuses_what_is_no_job(table_env: StreamTableEnvironment) -> None:
    with pytest.raises(
        ConfigurationError, match="expected a TableResult or a StatementSet of PyFlink, got a str"
    ):
        waitForJob("INSERT INTO black SELECT 1")
    with pytest.raises(ConfigurationError, match="no job"):
        waitForJob(table_env.execute_sql("SHOW TABLES"))


@pytest.mark.flink
def test_wait_for_job_shows_the_progress_of_scripts(
    table_env: StreamTableEnvironment,
    people: TableSourceBatchOp,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AKDL_PROGRESS", "1")
    script = tmp_path / "seven.py"
    script.write_text("def main(config):\n    config.output_writer.write_batch({'id': [7]})\n")
    op = TensorFlow2BatchOp(
        mainScriptFile=str(script), outputSchemaStr="id INT", numWorkers=1, numPSs=0
    )
    sevens = people.select("id").link(op).getOutputTable()
    result = sevens.execute_insert(make_sink(table_env, tmp_path / "sevens"))
    waitForJob(result)
    assert re.fullmatch(
        r"seven\.py: 3 rows in, 1 out, \d+ s: .*", capsys.readouterr().err.splitlines()[-1]
    )
    waitForJob(result)
    assert capsys.readouterr().err == "", "what has been told once is not told again"
    assert rows_in(tmp_path / "sevens") == ["7"]


OPERATORS = {"linked_1": Shown("a.py"), "linked_2": Shown("b.py")}


@pytest.fixture
def nothing_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setattr(waiting, "_linked", {})
    monkeypatch.setattr(waiting, "_told", set())


@pytest.mark.usefixtures("nothing_linked")
def test_a_job_that_is_waited_for_late_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    def shown() -> list[str]:
        with shown_if_seen():
            pass
        return capsys.readouterr().err.splitlines()

    assert shown() == []
    note_linked(OPERATORS, None)
    assert shown() == []
    ended = status_of(
        "linked_1",
        0,
        "chief 0",
        phase=ENDED,
        rows_in=7,
        rows_out=5,
        age_s=30.0,
        time_s={WORK: 30.0},
    )
    note(ended)
    assert shown() == ["a.py: 7 rows in, 5 out, 30 s: useful work 100%"]
    note(ended)  # as a file beside Flink's logs says it still
    assert shown() == []
    note(
        status_of("linked_1", 0, "chief 0", phase=FEEDING, rows_in=9, age_s=3.0, time_s={WORK: 3.0})
    )
    assert shown() == ["a.py: 9 rows, 3 s: useful work 100%"]
    note_told(OPERATORS)
    note(status_of("linked_2", 0, "chief 0", phase=ENDED))
    assert shown() == []
    forget_groups(OPERATORS)


@pytest.mark.usefixtures("nothing_linked")
def test_progress_of_other_clusters_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    note_linked({"linked_1": OPERATORS["linked_1"]}, Rest("nowhere:1"))
    note_linked({"linked_2": OPERATORS["linked_2"]}, None)
    note(status_of("linked_1", 0, "chief 0", phase=FEEDING))
    with shown_if_seen():
        pass
    assert capsys.readouterr().err == ""
    forget_groups(OPERATORS)


@pytest.mark.usefixtures("nothing_linked")
def test_number_of_remembered_operators_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_MOST", 1)
    note_linked(OPERATORS, None)
    assert list(waiting._linked) == ["linked_2"]
