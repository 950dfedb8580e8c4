"""A real Kafka at both ends of scripts and predictors: keys, headers and tombstones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from operators import (
    MLEnv,
    StreamOperator,
    TensorFlow2StreamOp,
    TFSavedModelPredictStreamOp,
    resetEnv,
    useLocalEnv,
)
from tests.akdl.serving import models
from tests.e2e.streams import counting
from tests.support.kafka import Broker

pytestmark = [pytest.mark.flink, pytest.mark.slow]

ROWS = 2000
ENDS = {"scan.bounded.mode": "latest-offset"}


@pytest.fixture(scope="module")
def env(kafka: Broker) -> Iterator[MLEnv]:
    yield useLocalEnv(
        2, config={"jars": ["kafka", "avro"], "taskmanager.memory.managed.size": "512m"}
    )
    resetEnv()


def rows(env: MLEnv, table: str, columns: str = "*") -> list[Any]:
    with env.stenv.sql_query(f"SELECT {columns} FROM {table}").execute().collect() as found:
        return [tuple(row) for row in found]


def doubles(task_config: Any) -> None:
    """Double the prices."""
    for batch in task_config.tf_context.batches(64):
        batch["price"] = batch["price"] * 2
        task_config.output_writer.write_batch(batch)


@pytest.mark.tf
def test_keys_and_headers_of_kafka_pass_through_a_script(env: MLEnv, kafka: Broker) -> None:
    table_env = env.stenv
    columns = "id BIGINT, price FLOAT, k STRING, headers MAP<STRING, BYTES> METADATA, part INT METADATA FROM 'partition' VIRTUAL"
    keyed = {"key.format": "raw", "key.fields": "k", "value.fields-include": "EXCEPT_KEY", **ENDS}
    for name, form in {"clicks": "json", "scores": "avro"}.items():
        topic = f"keyed_{name}"  # the docs have topics of these names
        kafka.table(table_env, name, columns, topic=topic, **{**keyed, "value.format": form})
    header = "MAP['source', ENCODE(source, 'UTF-8')]"
    counting(table_env, ROWS)
    table_env.execute_sql(
        f"INSERT INTO clicks SELECT id, CAST(id AS FLOAT) / 2, k, {header} FROM (SELECT id, CONCAT('k', CAST(MOD(id, 50) AS STRING)) "
        f"AS k, CONCAT('web', CAST(MOD(id, 3) AS STRING)) AS source FROM counting_{ROWS}_1000000000)"
    ).wait()
    clicks = table_env.sql_query(
        "SELECT id, price, k, DECODE(headers['source'], 'UTF-8') AS source FROM clicks"
    )
    script = TensorFlow2StreamOp(
        mainScriptFile=doubles,
        outputSchemaStr="id BIGINT, price FLOAT, k STRING, source STRING",
        numWorkers=2,
        numPSs=0,
    )
    StreamOperator.fromTable(clicks).link(script)
    table_env.create_temporary_view("doubled", script.getOutputTable())
    table_env.execute_sql(f"INSERT INTO scores SELECT id, price, k, {header} FROM doubled").wait()

    found = rows(env, "scores", "id, price, k, DECODE(headers['source'], 'UTF-8'), part")
    assert sorted(row[:4] for row in found) == [
        (i, float(i), f"k{i % 50}", f"web{i % 3}") for i in range(ROWS)
    ]
    before = dict(rows(env, "clicks", "DISTINCT k, part"))
    assert {row[2]: row[4] for row in found} == before and set(before.values()) == {0, 1, 2}


@pytest.mark.long
@pytest.mark.tf
def test_tombstones_of_kafka_pass_through_a_predictor(env: MLEnv, kafka: Broker) -> None:
    """A key that disappears upstream is deleted downstream: its last message has no value."""
    table_env = env.stenv
    upsert = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json", **ENDS}
    for name, column in (("sums", "s FLOAT"), ("predicted", "p FLOAT")):
        kafka.table(
            table_env, name, f"id BIGINT, {column}, PRIMARY KEY (id) NOT ENFORCED", **upsert
        )
        raw = {
            "key.format": "json",
            "key.fields": "id",
            "value.format": "raw",
            "value.fields-include": "EXCEPT_KEY",
            **ENDS,
        }
        kafka.table(table_env, f"{name}_messages", "id BIGINT, message STRING", topic=name, **raw)
    table_env.execute_sql(
        "INSERT INTO sums SELECT id, SUM(x) FROM (VALUES (1, CAST(5 AS FLOAT)), (2, 7), (1, -5)) AS events (id, x) "
        "GROUP BY id HAVING SUM(x) > 0"
    ).wait()
    assert rows(env, "sums_messages", "COUNT(*), COUNT(message)")[-1] == (3, 2)
    fed = table_env.sql_query(
        "SELECT id, id AS k, ARRAY[s, CAST(0 AS FLOAT), CAST(0 AS FLOAT)] AS x FROM sums"
    )
    predictor = TFSavedModelPredictStreamOp(
        modelPath=models.scaled(2.0),
        outputSchemaStr="p FLOAT",
        selectedCols=["x", "k"],
        reservedCols=["id"],
    )
    StreamOperator.fromTable(fed).link(predictor).select("id, p").insertInto("predicted")
    found = rows(env, "predicted_messages")
    assert Counter(found) == {
        (1, '{"id":1,"p":10.0}'): 1,
        (1, None): 1,
        (2, '{"id":2,"p":14.0}'): 1,
    }
    assert found.index((1, None)) > found.index((1, '{"id":1,"p":10.0}'))
