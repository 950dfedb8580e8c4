"""Tables of Arrow go in and come out as they were."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pytest

from bridge.host.program_folder import program_folder
from operators import BatchOperator, MLEnv, StreamOperator, resetEnv, useLocalEnv
from tests.operators.flink.test_arrow_columns import random_table

pytestmark = pytest.mark.flink


@pytest.fixture(scope="module")
def env() -> Iterator[MLEnv]:
    yield useLocalEnv(1)
    resetEnv()


@pytest.mark.long
def test_random_tables_of_arrow_come_back_unchanged(env: MLEnv) -> None:
    """Of all types, with nulls, in small and large batches; in one job, and one of them in a job of
    its own.
    """
    draw = random.Random(3)
    tables = [random_table(draw, rows) for rows in (0, 1, 700, 5000)]
    sources = [
        BatchOperator.fromArrow(table.to_reader(1 + place * 1000))
        for place, table in enumerate(tables)
    ]
    frames: list[pd.DataFrame] = []
    for source in sources[:3]:
        source.lazyCollectToDataframe(frames.append)
    back = sources[3].collectToArrow()
    assert [len(frame) for frame in frames] == [0, 1, 700]
    again = pa.table(sources[2])
    for table, found in ((tables[3], back), (tables[2], again)):
        assert found.column_names == table.column_names
        for name in table.column_names:
            assert found[name].to_pylist() == table[name].to_pylist(), name
    for name in again.column_names:
        assert found_types(again)[name] == found_types(back)[name]
    assert not [name for name in os.listdir(program_folder()) if name.startswith("collected_")]


def found_types(table: pa.Table) -> dict[str, pa.DataType]:
    return dict(zip(table.schema.names, table.schema.types))


def test_tables_are_exchanged_with_polars_and_duckdb(env: MLEnv) -> None:
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    given = polars.DataFrame(
        {
            "id": [1, 2, 2**53 + 1],
            "city": polars.Series(["Rome", None, "Oslo"], dtype=polars.Categorical),
            "text": ["longer than twelve bytes", "short", None],
            "v": polars.Series([[1.0, 2.0], None, [0.5]], dtype=polars.List(polars.Float32)),
        }
    )
    first = BatchOperator.fromArrow(given)
    assert first.getSchemaStr() == "id BIGINT, city STRING, text STRING, v ARRAY<FLOAT>"
    result = duckdb.sql("SELECT * REPLACE (id + 10 AS id) FROM given")
    union = first.unionAll(
        BatchOperator.fromArrow(result),
        BatchOperator.fromArrow(given.to_pandas(), first.getSchemaStr()),
    )
    back = polars.DataFrame(union)
    texts = given.with_columns(polars.col("city").cast(polars.String))
    expected = polars.concat([texts, texts.with_columns(polars.col("id") + 10), texts])
    assert back.sort("id", "text").equals(expected.sort("id", "text"))
    back = BatchOperator.fromArrow(back)  # read by others, and again here
    assert sorted(duckdb.sql("SELECT count(*), max(id) FROM back").fetchall()) == [(9, 2**53 + 11)]


def test_a_stream_begins_with_a_table_of_arrow(
    env: MLEnv, capsys: pytest.CaptureFixture[str]
) -> None:
    source = StreamOperator.fromArrow(pa.table({"n": [1, 2], "s": ["a", None]}), "n INT, s STRING")
    source.select("n + 1 AS m, s").print()
    StreamOperator.execute()
    assert capsys.readouterr().out.splitlines() == ["m, s", "2, a", "3, null"]
