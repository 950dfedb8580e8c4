"""A real PostgreSQL at both ends of scripts and predictors: types, lookup joins, and upserts."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from operators import (
    BatchOperator,
    MLEnv,
    StreamOperator,
    TensorFlow2StreamOp,
    TFSavedModelPredictStreamOp,
    resetEnv,
    useLocalEnv,
)
from tests.akdl.serving import models
from tests.support.postgresql import Database

pytestmark = [pytest.mark.flink, pytest.mark.slow]


@pytest.fixture(scope="module")
def env(_postgresql: Database) -> Iterator[MLEnv]:
    yield useLocalEnv(2, config={"jars": ["jdbc-postgresql"]})
    resetEnv()


def table(table_env: Any, postgresql: Database, name: str, columns: str, **more: str) -> None:
    options = "".join(f", '{key}' = '{value}'" for key, value in more.items())
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({postgresql.options(name)}{options})"
    )


# Column of PostgreSQL, its value there, the type in Flink, and the cell in a data frame.
TYPES: list[tuple[str, str, str, Any]] = [
    ("boolean", "true", "BOOLEAN", True),
    ("smallint", "-3", "SMALLINT", -3),
    ("integer", "70000", "INT", 70000),
    ("bigint", "9007199254740993", "BIGINT", 9007199254740993),
    ("real", "1.5", "FLOAT", 1.5),
    ("double precision", "0.1", "DOUBLE", 0.1),
    ("numeric(10, 2)", "12.30", "DECIMAL(10, 2)", Decimal("12.30")),
    ("text", "'größe'", "STRING", "größe"),
    ("bytea", "'\\x00ff'", "BYTES", b"\x00\xff"),
    ("date", "'2024-02-29'", "DATE", datetime.date(2024, 2, 29)),
    ("time", "'12:30:15'", "TIME(0)", datetime.time(12, 30, 15)),
    (
        "timestamp",
        "'1969-12-31 23:59:59.123456'",
        "TIMESTAMP(6)",
        datetime.datetime(1969, 12, 31, 23, 59, 59, 123456),
    ),
    ("double precision[]", "'{1.5, 2.5}'", "ARRAY<DOUBLE>", [1.5, 2.5]),
    ("text[]", "'{a, b}'", "ARRAY<STRING>", ["a", "b"]),
]


def test_cells_of_all_types_are_read_from_postgresql(env: MLEnv, postgresql: Database) -> None:
    columns = ", ".join(f"c{number} {kind}" for number, (kind, *_) in enumerate(TYPES))
    values = ", ".join(value for _, value, *_ in TYPES)
    postgresql.run(
        f"CREATE TABLE cells (id integer, {columns}); INSERT INTO cells VALUES (1, {values}); INSERT INTO cells VALUES (2);"
    )
    table(
        env.btenv,
        postgresql,
        "cells",
        "id INT, " + ", ".join(f"c{number} {each[2]}" for number, each in enumerate(TYPES)),
    )
    first, second = (
        BatchOperator.fromTable(env.btenv.sql_query("SELECT * FROM cells"))
        .orderBy("id")
        .collectToDataframe()
        .itertuples(index=False)
    )
    assert [
        list(cell) if isinstance(cell, (list, tuple)) else cell for cell in list(first)[1:]
    ] == [cell for *_, cell in TYPES]
    assert all(cell is None or cell != cell for cell in list(second)[1:])


def score_by_age(task_config: Any) -> None:
    for batch in task_config.tf_context.batches(10):
        task_config.output_writer.write_batch(
            {"id": batch["id"], "score": batch["price"] * batch["age"]}
        )
        task_config.commit()


@pytest.mark.tf
def test_lookup_join_feeds_a_script_whose_rows_are_written_back(
    env: MLEnv, postgresql: Database
) -> None:
    postgresql.run(
        "CREATE TABLE clients (id bigint PRIMARY KEY, age double precision);"
        "CREATE TABLE scores (id bigint PRIMARY KEY, score double precision);"
        "INSERT INTO clients SELECT i, 20 + i FROM generate_series(0, 9) AS s(i); INSERT INTO scores VALUES (3, -1);"
    )
    table(env.stenv, postgresql, "clients", "id BIGINT, age DOUBLE, PRIMARY KEY (id) NOT ENFORCED")
    table(env.stenv, postgresql, "scores", "id BIGINT, score DOUBLE, PRIMARY KEY (id) NOT ENFORCED")
    env.stenv.execute_sql(
        "CREATE TEMPORARY TABLE clicks (id BIGINT, customer AS MOD(id, 10), price AS CAST(2 AS DOUBLE), now AS PROCTIME()) WITH "
        "('connector' = 'datagen', 'number-of-rows' = '100', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0', "
        "'fields.id.end' = '99')"
    )
    joined = env.stenv.sql_query(
        "SELECT clicks.id, price, age FROM clicks JOIN clients FOR SYSTEM_TIME AS OF clicks.now ON clicks.customer = clients.id"
    )
    script = TensorFlow2StreamOp(
        mainScriptFile=score_by_age,
        outputSchemaStr="id BIGINT, score DOUBLE",
        numWorkers=2,
        numPSs=0,
        replay="uncommitted",
    )
    scored = StreamOperator.fromTable(joined).link(script).getOutputTable()
    env.stenv.create_temporary_view("scored", scored)
    env.stenv.execute_sql(
        "INSERT INTO scores SELECT * FROM scored ON CONFLICT DO DEDUPLICATE"
    ).wait()
    found = dict(line.split("|") for line in postgresql.run("SELECT * FROM scores"))
    assert {int(number): float(score) for number, score in found.items()} == {
        i: 2.0 * (20 + i % 10) for i in range(100)
    }


@pytest.mark.tf
def test_updates_and_deletes_of_a_prediction_reach_postgresql(
    env: MLEnv, postgresql: Database
) -> None:
    postgresql.run(
        "CREATE TABLE predicted (id bigint PRIMARY KEY, p real); INSERT INTO predicted VALUES (9, 9);"
    )
    table(env.stenv, postgresql, "predicted", "id BIGINT, p FLOAT, PRIMARY KEY (id) NOT ENFORCED")
    fed = env.stenv.sql_query(
        "SELECT id, id AS k, ARRAY[s, CAST(0 AS FLOAT), CAST(0 AS FLOAT)] AS x FROM (SELECT id, SUM(x) AS s FROM (VALUES "
        "(CAST(1 AS BIGINT), CAST(5 AS FLOAT)), (2, 7), (3, 1), (1, -5), (3, 3)) AS events (id, x) GROUP BY id HAVING SUM(x) > 0)"
    )
    predictor = TFSavedModelPredictStreamOp(
        modelPath=models.scaled(2.0),
        outputSchemaStr="p FLOAT",
        selectedCols=["x", "k"],
        reservedCols=["id"],
    )
    StreamOperator.fromTable(fed).link(predictor).select("id, p").insertInto("predicted")
    assert postgresql.run("SELECT * FROM predicted ORDER BY id") == ["2|14", "3|8", "9|9"]
