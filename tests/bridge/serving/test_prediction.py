"""The table that a predictor makes. No job runs here; jobs with models are in tests/e2e."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from bridge.flink.time_attributes import PROCTIME, ROWTIME, time_attributes
from bridge.schema import Schema
from bridge.serving.model_process import ModelSettings
from bridge.serving.prediction import PredictionSettings, predict_table
from operators import useLocalEnv

pytestmark = pytest.mark.flink
_groups = itertools.count()


@pytest.fixture(scope="module")
def table_env() -> Any:
    made = useLocalEnv(1).stenv
    made.execute_sql(
        "CREATE TEMPORARY TABLE events (x FLOAT, id BIGINT NOT NULL, t TIMESTAMP(3), p AS PROCTIME(), "
        "WATERMARK FOR t AS t) WITH ('connector' = 'datagen')"
    )
    return made


def predicted(table_env: Any, result: tuple[tuple[str, bool], ...], sql: str = "SELECT * FROM events", **changes: Any) -> Any:
    settings = PredictionSettings(
        ModelSettings("TestOp", f"predicted_{next(_groups)}", "{}", "secret"), "/models/one", Schema.parse("x FLOAT"),
        Schema.parse("y ARRAY<FLOAT>"), result, **changes,
    )  # fmt: skip
    return predict_table(table_env, table_env.sql_query(sql), settings)


def types(table: Any) -> dict[str, str]:
    schema = table._j_table.getResolvedSchema()
    return {name: str(type_) for name, type_ in zip(schema.getColumnNames(), schema.getColumnDataTypes())}


def test_columns_of_the_result_have_the_order_that_is_asked_for(table_env: Any) -> None:
    table = predicted(table_env, (("id", False), ("y", True), ("x", False)))
    assert types(table) == {"id": "BIGINT NOT NULL", "y": "ARRAY<FLOAT>", "x": "FLOAT"}
    assert list(types(table)) == ["id", "y", "x"]


def test_columns_that_do_not_stay_are_not_carried(table_env: Any) -> None:
    """The INTERVAL could not be."""
    assert list(types(predicted(table_env, (("y", True),), "SELECT *, INTERVAL '1' DAY AS odd FROM events"))) == ["y"]


def test_the_column_of_errors_is_the_last(table_env: Any) -> None:
    table = predicted(table_env, (("y", True), ("id", False)), error_column="what is wrong")
    assert list(types(table)) == ["y", "id", "what is wrong"] and types(table)["what is wrong"] == "STRING"


def test_time_attributes_of_columns_that_stay_are_kept(table_env: Any) -> None:
    table = predicted(table_env, (("p", False), ("y", True), ("t", False)), error_column="error")
    assert list(types(table)) == ["p", "y", "t", "error"]
    assert time_attributes(table) == {"p": PROCTIME, "t": ROWTIME}


def test_an_event_time_that_does_not_stay_is_none(table_env: Any) -> None:
    assert time_attributes(predicted(table_env, (("y", True), ("id", False)))) == {}


def test_updates_stay_updates(table_env: Any) -> None:
    counted = "SELECT CAST(COUNT(*) AS FLOAT) AS x, id FROM events GROUP BY id"
    table_env.to_changelog_stream(predicted(table_env, (("id", False), ("y", True)), counted))
    with pytest.raises(Exception, match="(?s)doesn't support consuming update"):
        table_env.to_data_stream(predicted(table_env, (("id", False), ("y", True)), counted))


def test_the_key_of_updates_is_kept(table_env: Any) -> None:
    """Else Flink refuses to write them into a table with that primary key."""
    counted = "SELECT CAST(COUNT(*) AS FLOAT) AS x, id, MAX(t) AS t FROM events GROUP BY id"

    def key(result: tuple[tuple[str, bool], ...], sql: str = counted) -> list[str]:
        found = predicted(table_env, result, sql)._j_table.getResolvedSchema().getPrimaryKey()
        return list(found.get().getColumns()) if found.isPresent() else []

    assert key((("id", False), ("y", True))) == ["id"] and key((("y", True),)) == []
    assert (
        key((("t", False), ("y", True)), "SELECT CAST(COUNT(*) AS FLOAT) AS x, t FROM events GROUP BY t") == []
    )  # null may be one
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE latest (id BIGINT, y ARRAY<FLOAT>, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'blackhole')"
    )
    table_env.create_temporary_view("counted", predicted(table_env, (("id", False), ("y", True)), counted))
    assert "latest" in table_env.explain_sql("INSERT INTO latest SELECT id, y FROM counted")
