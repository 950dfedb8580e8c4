"""What every operator can do: tables, SQL, links, and what is left behind by its job."""

from __future__ import annotations

import logging
import subprocess
import sys

import pandas as pd
import pytest
from pyflink.table import StreamTableEnvironment

from bridge.exceptions import ConfigurationError
from operators import (
    BatchOperator,
    RandomTableSourceBatchOp,
    TableSourceBatchOp,
    TensorFlow2BatchOp,
)
from operators.base.operator import _plain_columns, _quoting_hint
from operators.progress.state import Shown
from tests.support.deadline import DEADLINE_S


def test_an_operator_that_is_not_linked_has_no_table() -> None:
    with pytest.raises(
        ConfigurationError, match="TensorFlow2BatchOp has no table yet: link it to its input first"
    ):
        TensorFlow2BatchOp().getOutputTable()


def test_from_table_refuses_a_dataframe() -> None:
    with pytest.raises(ConfigurationError, match="expected a PyFlink Table, got a DataFrame"):
        BatchOperator.fromTable(pd.DataFrame())


@pytest.mark.flink
def test_operator_shows_names_and_types_of_its_columns(people: TableSourceBatchOp) -> None:
    assert people.getColNames() == ["id", "name", "score"]
    assert people.getColTypes() == ["INT NOT NULL", "STRING", "DECIMAL(2, 1) NOT NULL"]
    assert repr(people).startswith(
        "TableSourceBatchOp: id INT NOT NULL, name STRING, score DECIMAL(2, 1) NOT NULL; "
    )


@pytest.mark.flink
def test_select_takes_sql_or_names(people: TableSourceBatchOp) -> None:
    chosen = people.select(["name", "id"])
    assert chosen.getColNames() == ["name", "id"]
    labelled = people.select("*, case when RAND() > 0.5 then 1. else 0. end as label")
    assert labelled.getColNames() == ["id", "name", "score", "label"]
    # `1.` is a whole number in SQL, as scripts for Alink expect
    assert labelled.getColTypes()[-1] == "INT NOT NULL"
    assert people.select("id -- and a comment").getColNames() == ["id"]


@pytest.mark.flink
def test_wrong_sql_is_refused_with_the_reason(people: TableSourceBatchOp) -> None:
    with pytest.raises(ConfigurationError) as raised:
        people.select("id, nome")
    message = str(raised.value)
    assert message.startswith(
        "select: 'id, nome' is not valid SQL for the columns ['id', 'name', 'score']: "
    )
    assert "Column 'nome' not found" in message
    with pytest.raises(ConfigurationError, match="filter: 'id >' is not valid SQL") as raised:
        people.filter("id >")
    assert len(str(raised.value)) < 300
    with pytest.raises(ConfigurationError, match="'sco`re'"):
        people.select(["sco`re"])


@pytest.mark.flink
def test_views_are_not_left_behind(
    table_env: StreamTableEnvironment, people: TableSourceBatchOp
) -> None:
    before = table_env.list_temporary_views()
    people.select("id").where("id > 1")
    assert table_env.list_temporary_views() == before


@pytest.mark.flink
def test_a_result_goes_on_in_plain_sql(
    table_env: StreamTableEnvironment, people: TableSourceBatchOp
) -> None:
    table_env.create_temporary_view(
        "rich", people.where("score > 1").filter("id < 3").getOutputTable()
    )
    try:
        with table_env.sql_query("SELECT COUNT(*), MAX(id) FROM rich").execute().collect() as rows:
            assert [tuple(row) for row in rows] == [(1, 2)]
    finally:
        table_env.drop_temporary_view("rich")


@pytest.mark.flink
def test_link_refuses_other_objects_and_a_source_as_target(people: TableSourceBatchOp) -> None:
    with pytest.raises(ConfigurationError, match="link: expected a BatchOperator, got a str"):
        people.link("op")
    with pytest.raises(ConfigurationError, match="TableSourceBatchOp takes no input"):
        people.link(people)


@pytest.mark.flink
def test_a_failed_job_is_one_short_error(people: TableSourceBatchOp) -> None:
    with pytest.raises(Exception, match="(?i)by zero|zero") as raised:
        people.select("1 / (id - id) AS x").collectToDataframe()
    assert len(str(raised.value).splitlines()) < 5


@pytest.mark.flink
def test_the_users_log_handlers_survive_a_job(table_env: StreamTableEnvironment) -> None:
    from pyflink.table import DataTypes
    from pyflink.table.udf import udf

    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    try:
        table_env.create_temporary_function(
            "twice_of", udf(lambda x: x * 2, result_type=DataTypes.INT(), func_type="pandas")
        )
        ids = RandomTableSourceBatchOp(numRows=3, numCols=1, idCol="id").select(
            "CAST(id AS INT) AS id"
        )
        assert list(ids.select("twice_of(id) AS x").collectToDataframe().x) == [0, 2, 4]
        assert handler in logging.getLogger().handlers
    finally:
        logging.getLogger().removeHandler(handler)


def test_operators_show_themselves_without_java() -> None:
    """In a process of its own, as others have started Java here."""
    code = (
        "import sys, pandas as pd\n"
        "from operators import *\n"
        "frame = pd.DataFrame({'a': [1], 'b': ['x']})\n"
        "for each in (MemSourceBatchOp(frame), TensorFlow2BatchOp(numWorkers=2), useLocalEnv(2), Pipeline(TF2TableModelTrainer())):\n"
        "    print(repr(each)); getattr(each, '_repr_html_', str)()\n"
        "print('pyflink' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
    )
    assert done.stdout.splitlines() == [
        "MemSourceBatchOp(rows=1): a BIGINT, b STRING; collectToDataframe() or print() returns its rows",
        "TensorFlow2BatchOp(numWorkers=2): no table until it is linked or used",
        "MLEnv(mini cluster in this program, parallelism 2)",
        "Pipeline(0=TF2TableModelTrainer)",
        "False",
    ]


def test_jobs_are_named_by_their_scripts_and_tables() -> None:
    op = BatchOperator()
    assert op._job_name() is None and op._job_name("a", "b", "a") == "insert into a, b"
    op._shown = {"1": Shown("score.py"), "2": Shown("train.py"), "3": Shown("score.py")}
    assert (
        op._job_name() == "score.py, train.py" and op._job_name("a") == "score.py, train.py into a"
    )


@pytest.mark.parametrize(
    ("sql", "reason", "told"),
    [
        (
            "order date, b",
            "Column 'order' not found",
            "; quote column names such as `order date` with back-quotes",
        ),
        (
            "HOUR(`order date`) AS hour",
            'Encountered "hour" at',
            "; quote column names such as `hour` with back-quotes",
        ),
        ("b >", 'Encountered "FROM" at', ""),
        ("nope", "Column 'nope' not found", ""),
    ],
)
def test_a_hint_names_columns_that_need_back_quotes(sql: str, reason: str, told: str) -> None:
    assert _quoting_hint(sql, reason, ["order date", "b"]) == told


@pytest.mark.parametrize(
    ("clause", "names"),
    [
        ("*", ["a", "b c", "d`e", "CURRENT_DATE"]),
        (" a ,`b c`", ["a", "b c"]),
        ("`d``e`,a", ["d`e", "a"]),
        ("`CURRENT_DATE`", ["CURRENT_DATE"]),
        ("CURRENT_DATE", None),
        ("a AS b", None),
        ("a, a + 1", None),
        ("DISTINCT a", None),
        ("`a`.`b`", None),
    ],
)
def test_select_lists_of_plain_columns(clause: str, names: list[str] | None) -> None:
    assert _plain_columns(clause, ["a", "b c", "d`e", "CURRENT_DATE"]) == names
