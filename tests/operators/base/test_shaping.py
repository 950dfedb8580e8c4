"""Tables of tables: what is refused. What they give is in test_alink_calls.py, in one job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from operators import BatchOperator, MLEnv, StreamOperator, TableSourceBatchOp, udf, udtf

pytestmark = pytest.mark.flink


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.alias("a, b, c, d"), "alias: got 4 names for the 3 columns"),
        (lambda p: p.sample(1.5), "sample: expected a ratio from 0 to 1, got 1.5"),
        (lambda p: p.unionAll("p"), "unionAll: expected a BatchOperator, got a str"),
        (lambda p: p.unionAll(p.select("id")), "unionAll: .* is not valid SQL"),
        (lambda p: p.join(p, "a.id = b.id", type="CROSS"), "join: expected type JOIN, LEFT JOIN"),
        (lambda p: p.join(p, "a.id = b.nope"), "join: .* ON a.id = b.nope.* is not valid SQL"),
        (
            lambda p: p.udf(udf(abs, result_type="INT"), "id", "id", ["id"]),
            "udf: reservedCols and outputCol both name 'id'",
        ),
        (
            lambda p: p.udf(udf(abs, result_type="INT"), "id", "x", ["nope"]),
            "udf: reservedCols names nope; the input has id",
        ),
        (
            lambda p: p.udtf(udtf(abs, result_types=["INT"]), "id", ["name"]),
            "udtf: outputCols: the input already has name",
        ),
        (lambda p: p.toTensor("name", "STRING"), "toTensor: expected one of FLOAT"),
        (lambda p: p.toVector("id"), "toVector: 'id' is not valid SQL"),
        (
            lambda p: p.convertTypes("id", "FOO"),
            "convertTypes: targetType is the unknown type 'FOO'",
        ),
        (
            lambda p: p.orderBy("id", order="up"),
            "orderBy: expected order 'asc' or 'desc', got 'up'",
        ),
        (
            lambda p: p.orderBy("id, name DESC", order="asc"),
            "orderBy: field 'id, name DESC' already contains the order: remove order",
        ),
        (lambda p: p.firstN(0), "firstN: expected a number of rows of at least 1, got 0"),
        (
            lambda p: p.sampleWithSize(0),
            "sampleWithSize: expected a number of rows of at least 1, got 0",
        ),
        (
            lambda p: BatchOperator.sqlQuery("SELECT * FROM nowhere"),
            "sqlQuery: .*nowhere.* is not valid SQL: .*nowhere",
        ),
    ],
)
def test_wrong_arguments_of_shaping_methods_are_refused(
    people: TableSourceBatchOp, call: Callable[..., Any], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        call(people)


def test_tables_of_two_environments_or_kinds_are_not_combined(
    env: MLEnv, people: TableSourceBatchOp
) -> None:
    stream = StreamOperator.fromTable(env.stenv.sql_query("SELECT 1 AS id"))
    with pytest.raises(
        ConfigurationError, match="unionAll: expected a BatchOperator, got a TableSourceStreamOp"
    ):
        people.unionAll(stream)
    elsewhere = BatchOperator.fromTable(env.stenv.sql_query("SELECT 1 AS id"))
    with pytest.raises(
        ConfigurationError, match="unionAll: all inputs must belong to one environment"
    ):
        people.unionAll(elsewhere)


@pytest.mark.parametrize(
    ("name", "quoted"), [("some_people", "some_people"), ("so-me `p", "`so-me ``p`")]
)
def test_table_name_can_be_registered_again(
    people: TableSourceBatchOp, name: str, quoted: str
) -> None:
    people.registerTableName(name)
    again = people.select("id")
    again._models = frozenset({"model"})
    again.registerTableName(name)
    found = BatchOperator.sqlQuery(f"SELECT * FROM {quoted}")
    assert found.getColNames() == ["id"] and "model" in found._models
    assert "model" not in BatchOperator.sqlQuery("SELECT 1 AS awesome_people")._models
