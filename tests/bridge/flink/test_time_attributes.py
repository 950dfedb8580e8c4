"""Which columns are times of a stream, and tables with one event time at most. No job runs here."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.flink.time_attributes import PROCTIME, ROWTIME, time_attributes, with_plain_times
from operators import useLocalEnv

pytestmark = pytest.mark.flink


@pytest.fixture(scope="module")
def table_env() -> Any:
    made = useLocalEnv(1).stenv
    for number in (1, 2):
        made.execute_sql(
            f"CREATE TEMPORARY TABLE times_{number} (id INT, `t``s` TIMESTAMP(3), p AS PROCTIME(), "
            "WATERMARK FOR `t``s` AS `t``s`) WITH ('connector' = 'datagen')"
        )
    return made


@pytest.fixture
def table(table_env: Any) -> Any:
    """A table with two event times, as a join of intervals has it."""
    return table_env.sql_query(
        "SELECT a.id, a.`t``s`, a.p, b.`t``s` AS `select` FROM times_1 a, times_2 b "
        "WHERE a.id = b.id AND a.`t``s` BETWEEN b.`t``s` AND b.`t``s` + INTERVAL '1' HOUR"
    )


def types(table: Any) -> dict[str, str]:
    schema = table._j_table.getResolvedSchema()
    return {
        name: str(type_)
        for name, type_ in zip(schema.getColumnNames(), schema.getColumnDataTypes())
    }


def test_time_attributes_are_found(table: Any) -> None:
    assert time_attributes(table) == {"t`s": ROWTIME, "p": PROCTIME, "select": ROWTIME}


def test_a_column_that_only_has_the_type_of_a_time_is_none(table_env: Any) -> None:
    assert (
        time_attributes(
            table_env.sql_query("SELECT CAST(`t``s` AS TIMESTAMP(3)) AS t, id FROM times_1")
        )
        == {}
    )
    assert (
        time_attributes(
            table_env.sql_query("SELECT TIMESTAMP '2020-01-01 00:00:00' AS `*ROWTIME*`")
        )
        == {}
    )


def test_event_times_become_plain_and_keep_their_names_and_types(
    table_env: Any, table: Any
) -> None:
    plain = with_plain_times(table_env, table, "plain", ["id", "t`s", "p", "select"])
    assert time_attributes(plain) == {"p": PROCTIME}
    assert types(plain)["t`s"] == types(plain)["select"] == "TIMESTAMP(3)"
    assert list(types(plain)) == ["id", "t`s", "p", "select"]


def test_chosen_time_attribute_may_stay(table_env: Any, table: Any) -> None:
    found = with_plain_times(table_env, table, "one_stays", ["t`s", "select"], rowtime="select")
    assert list(types(found)) == ["t`s", "select"] and time_attributes(found) == {"select": ROWTIME}


def test_columns_come_in_the_order_of_the_table(table_env: Any, table: Any) -> None:
    assert list(types(with_plain_times(table_env, table, "ordered", {"select", "id"}))) == [
        "id",
        "select",
    ]


def test_the_time_of_a_window_which_is_never_null_becomes_plain(table_env: Any) -> None:
    windows = table_env.sql_query(
        "SELECT window_time AS w, MAX(id) AS n FROM TABLE(TUMBLE(TABLE times_1, DESCRIPTOR(`t``s`), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end, window_time"
    )
    assert types(windows)["w"] == "TIMESTAMP(3) NOT NULL *ROWTIME*"
    assert types(with_plain_times(table_env, windows, "windows", ["w", "n"])) == {
        "w": "TIMESTAMP(3) NOT NULL",
        "n": "INT",
    }
