"""Statistics of columns: the query, and the rows made of its result. That it runs is seen in
test_alink_calls.py.
"""

from __future__ import annotations

import pandas as pd

from operators.flink.collect import aggregates, statistics_of


def test_numbers_have_more_statistics_than_other_columns() -> None:
    sql = aggregates(["a", "b"], ["TINYINT NOT NULL", "STRING"], "v")
    assert (
        "SUM(CAST(`a` AS DOUBLE)) AS sum_0" in sql and "COUNT(*) - COUNT(`b`) AS missing_1" in sql
    )
    assert "sum_1" not in sql and sql.endswith(" FROM v")


def test_one_row_becomes_a_row_for_each_column() -> None:
    row = pd.DataFrame([{"count_0": 2, "missing_0": 0, "sum_0": 3.0, "count_1": 2, "missing_1": 1}])
    frame = statistics_of(["a", "b"], row)
    assert frame.colName.tolist() == ["a", "b"] and frame.missing.tolist() == [0, 1]
    assert frame["sum"][0] == 3.0 and pd.isna(frame["sum"][1])
