"""Arguments of a SQL function as PyFlink hands them over, with a real process that predicts."""

from __future__ import annotations

import decimal
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bridge.exceptions import RowError
from bridge.serving.sql_function import ModelFunction
from operators import model_function

pytestmark = pytest.mark.process

COLUMNS = "x FLOAT, n BIGINT, d DECIMAL(4, 1), s STRING"


@pytest.fixture
def function(tmp_path: pathlib.Path) -> Iterator[ModelFunction]:
    script = tmp_path / "told.py"
    script.write_text(
        "def load():\n"
        "    return lambda batch: {'n': batch['n'], 'all': ['|'.join(map(str, cells)) for cells in zip(*batch.values())]}\n"
    )
    made: Any = model_function(
        f"{script}:load", COLUMNS, "n BIGINT, all STRING", errorCol="why", defaults={"s": "-"}
    )
    made._func.open(None)
    yield made._func
    made._func.close()
    made._func.close()


def series(*cells: Any, dtype: Any = None) -> pd.Series[Any]:
    return pd.Series(list(cells), dtype=dtype)


REFUSED: list[tuple[dict[int, Any], str]] = [
    (
        {1: series(float(2**53))},
        r"argument 'n' \(BIGINT\): PyFlink rounds integers beyond 2\*\*53 where .* COALESCE",
    ),
    (
        {1: series(1.5)},
        r"argument 'n' \(BIGINT\): Float value 1.5 was truncated .*: CAST the argument",
    ),
    (
        {0: series("a")},
        r"argument 'x' \(FLOAT\): could not convert string to float: 'a': CAST the argument",
    ),
    ({2: series(decimal.Decimal("1000.5"))}, r"argument 'd' \(DECIMAL\(4, 1\)\): "),
    ({0: 1.0, 1: 1, 2: 1}, "got 4 arguments, all literals: name a column of the table among them"),
    ({4: 1}, r"expected 4 columns \(x, n, d, s\), got 5 arguments"),
]


@pytest.mark.fault(
    "data", "An argument of a SQL function that would be rounded or does not fit is refused by name"
)
def test_sql_function_predicts_values_and_literals_and_refuses_nulls(
    function: ModelFunction,
) -> None:
    one = decimal.Decimal("1.0")
    found = function.eval(series(1.5, 2, dtype="f4"), series(2**62 + 1, 3), series(one, one), "ä")
    assert found.columns.tolist() == ["n", "all", "why"] and found.n.tolist() == [2**62 + 1, 3]
    assert found["all"].tolist() == [
        "1.5|4611686018427387905|1.0|ä",
        "2.0|3|1.0|ä",
    ] and found.why.tolist() == [None, None]
    literals = function.eval(decimal.Decimal("0.5"), 2**62 + 1, 2, series("a", None, dtype=object))
    assert literals["all"].tolist() == [
        "0.5|4611686018427387905|2.0|a",
        "0.5|4611686018427387905|2.0|-",
    ]

    nulls = function.eval(
        series(np.nan, 1, 1, dtype="f4"),
        series(1.0, np.nan, 2.0),
        series(one, one, None, dtype=object),
        None,
    )
    assert nulls.why.str.extract("^input '(.)' .* expected a value, got null$")[0].tolist() == [
        "x",
        "n",
        "d",
    ]
    assert nulls.n.isna().all() and nulls["all"].isna().all()
    large = function.eval(series(np.nan, 1, dtype="f4"), series(1, 2**53 + 1), one, "a")
    assert large.n.tolist() == [None, 2**53 + 1], "a null makes no float of the others"

    for changes, message in REFUSED:
        arguments: dict[int, Any] = {
            0: series(1.0),
            1: series(1),
            2: series(one),
            3: "a",
            **changes,
        }
        with pytest.raises(RowError, match=f"^model_function: .*{message}"):
            function.eval(*arguments.values())


@pytest.mark.fault("data", "An instant reaches a SQL function in UTC, in any zone of the session")
def test_instant_of_a_sql_function_is_in_utc(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "instants.py"
    script.write_text("def load():\n    return lambda batch: list(map(str, batch['z']))\n")
    made: Any = model_function(f"{script}:load", "z TIMESTAMP_LTZ(3)", "y STRING")
    made._func.open(None)
    clock = pd.Series(pd.to_datetime(["2024-01-02T03:04:05", None]))
    # PyFlink labels the clock of UTC as local time.
    for cells in (clock[:1], clock[:1].dt.tz_localize("Asia/Shanghai")):
        assert made._func.eval(cells).tolist() == ["2024-01-02T03:04:05.000000"]
    made._func.close()
