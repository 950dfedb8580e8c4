"""SQL predicates as expressions: each is compared with the rows that Flink's rules keep."""

from __future__ import annotations

import datetime
import decimal
import zoneinfo

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bridge.exceptions import ConfigurationError
from bridge.files.predicates import columns_in, expression_of

ROWS = pa.table(
    {
        "id": pa.array([0, 1, 2, 3, 4]),
        "price": pa.array([1.5, None, -2.0, 3.0, 10.0]),
        "city": pa.array(["Rome", "Oslo", None, "it's", "a`b"]),
        "ok": pa.array([True, False, None, True, False]),
        "day": pa.array([datetime.date(2024, 5, day) for day in range(1, 6)]),
        "at": pa.array(
            [datetime.datetime(2024, 5, day, 12) for day in range(1, 6)], pa.timestamp("us")
        ),
        "cost": pa.array(
            [decimal.Decimal(f"{number}.10") for number in range(5)], pa.decimal128(10, 2)
        ),
        "two words": pa.array([0, 1, 0, 1, None]),
        "DATE": pa.array([1, 2, 3, 4, 5]),
        "people": pa.array([20_000_000, None, 2**53 + 1, 3, -(2**63)]),
    }
)
TYPES = {field.name: field.type for field in ROWS.schema}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("price > 1.5", [3, 4]),
        ("price>=1.5 and not id = 3", [0, 4]),
        ("1.5 < price", [3, 4]),
        ("price <> 1.5", [2, 3, 4]),
        ("price = -2", [2]),
        ("city = 'Rome' OR city = 'Oslo' AND id = 0", [0]),
        ("(city = 'Rome' OR city = 'Oslo') AND id = 1", [1]),
        ("city IN ('Rome', 'it''s')", [0, 3]),
        ("city NOT IN ('Rome', 'Oslo')", [3, 4]),
        ("NOT city IN ('Rome')", [1, 3, 4]),
        ("NOT (price > 2 AND ok)", [0, 1, 2, 4]),
        ("city IS NULL", [2]),
        ("price is not null and ok", [0, 3]),
        ("id BETWEEN 1 AND 2 OR id = 4", [1, 2, 4]),
        ("id NOT BETWEEN 1 AND 3", [0, 4]),
        ("city LIKE '%o%'", [0, 1]),
        ("city NOT LIKE 'O_lo'", [0, 3, 4]),
        ("ok = TRUE", [0, 3]),
        ("NOT ok", [1, 4]),
        ("day >= DATE '2024-05-04'", [3, 4]),
        ("day < '2024-05-02'", [0]),
        ("at > TIMESTAMP '2024-05-04 11:59:59.5'", [3, 4]),
        ("'2024-05-02 12:00:00' >= at", [0, 1]),
        ("cost = 2.10", [2]),
        ("cost IN (0.1, 4.10)", [0, 4]),
        ("`two words` = 1", [1, 3]),
        ("DATE = 2", [1]),
        ("id < price", [0, 4]),
        ("id = 1e0", [1]),
        ("city = 'a``b' OR city = 'a`b'", [4]),
        ("city = 'a``b'", []),
        ("people > 2.5", [0, 2, 3]),
        ("1e6 <= people", [0, 2]),
        ("people = 2.5", []),
        ("NOT people = 2.5", [0, 2, 3, 4]),
        ("people IN (3.0, 2e7)", [0, 3]),
        ("people BETWEEN -0.5 AND 9007199254740993.0", [0, 2, 3]),
        ("people < 1e25", [0, 2, 3, 4]),
        ("price < 9007199254740993", [0, 2, 3, 4]),
    ],
)
def test_predicates_keep_the_rows_of_sql(text: str, expected: list[int]) -> None:
    expression = expression_of(text, TYPES)
    assert ROWS.filter(expression)["id"].to_pylist() == expected
    used = columns_in(expression, TYPES)
    assert (
        ROWS.select({"id": 0, **dict.fromkeys(used)}).filter(expression)["id"].to_pylist()
        == expected
    )


@pytest.mark.fault("data", "A filter compares instants in the session's time zone, as SQL does")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t >= TIMESTAMP '2024-06-01 00:00:00'", [1, 2]),
        ("'2024-06-01T04:00:00' > t", [0]),
        ("t = '2024-06-01 04:00:00'", [1]),
        ("t BETWEEN '2024-05-31 20:00:00Z' AND TIMESTAMP '2024-06-01 00:00:00+08:00'", []),
        ("t IN ('2024-06-01 04:00:00', '2024-05-31T15:59:59+00:00')", [0, 1]),
        ("t < DATE '2024-06-01'", [0]),
        ("t > '2024-06-01 05:00:00' AND t < '9999-12-31 23:59:59'", [2]),
        ("t IS NULL", [3]),
    ],
)
def test_instants_are_compared_in_a_time_zone(text: str, expected: list[int]) -> None:
    times = ["2024-05-31T15:59:59", "2024-05-31T20:00", "9999-12-31T00:00", None]
    cells = [time and datetime.datetime.fromisoformat(time) for time in times]
    rows = pa.table({"id": range(4), "t": pa.array(cells, pa.timestamp("us"))})
    types = {"id": pa.int64(), "t": pa.timestamp("us", "UTC")}
    expression = expression_of(text, types, zoneinfo.ZoneInfo("Asia/Shanghai"))
    assert rows.filter(expression)["id"].to_pylist() == expected
    assert columns_in(expression, {name: rows[name].type for name in types}) == ["t"]


@pytest.mark.parametrize(
    "text", ["t > at", "at <= t", "t IN (at)", "'2024-06-01' BETWEEN at AND t"]
)
def test_instants_are_not_compared_with_local_times(text: str) -> None:
    with pytest.raises(ConfigurationError, match="filter the source's table for all of SQL"):
        expression_of(text, {**TYPES, "t": pa.timestamp("us", "UTC")})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it ends too early"),
        ("at = '2024-05-31T18:00:00Z'", "found .* at character 7"),
        ("price >", "it ends too early"),
        ("price > 1 city", r"found 'city' at character 11"),
        ("price ! 1", r"found '! 1' at character 7"),
        ("price", r"it ends too early"),
        ("UPPER(city) = 'ROME'", "there is no column 'UPPER'"),
        (
            "prise > 1",
            r"there is no column 'prise' \(did you mean 'price'\?\); the files have 'id', 'price', 'city'",
        ),
        ("city LIKE 5", "found '5' at character 11"),
        ("day = DATE 'soon'", "found 'DATE 'soon'' at character 7".replace("'", ".")),
        ("(id = 1", "it ends too early"),
        ("id IN ()", "found '\\)' at character 8"),
        ("id NOT 5", "found '5' at character 8"),
        ("id < 9223372036854775808", "found '9223372036854775808' at character 6"),
        ("id < 1e999999999", "found '1e999999999' at character 6"),
        ("price + 1 > 2", r"found '\+ 1 > 2' at character 7"),
    ],
)
def test_texts_that_are_no_predicate_are_refused_with_their_place(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        expression_of(text, TYPES)


def test_expressions_that_do_not_fit_the_columns_are_refused() -> None:
    with pytest.raises(
        ConfigurationError,
        match="no column 'prise' .*did you mean 'price'.*; the files have 'id', 'price'",
    ):
        columns_in((pc.field("prise") > 1) & (pc.field("id") > 1), TYPES)
    with pytest.raises(
        ConfigurationError, match=r"does not fit the columns \(city string\): compare each column"
    ):
        columns_in(expression_of("city > 5 OR city = DATE '2024-05-31'", TYPES), TYPES)
