"""Our sources read what Flink's own formats of Parquet and ORC have written: the same rows and
types, in folders and as they grow.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from bridge.exceptions import BridgeError
from operators import (
    BatchOperator,
    FileSourceBatchOp,
    FileSourceStreamOp,
    StreamOperator,
    getMLEnv,
    resetEnv,
    useLocalEnv,
)
from operators.flink.jars import paths_of
from tests.support.leftovers import DEADLINE_S, wait_until

pytestmark = [pytest.mark.flink, pytest.mark.slow]

VALUES = {
    "BOOLEAN": "TRUE", "TINYINT": "CAST(-7 AS TINYINT)", "SMALLINT": "CAST(300 AS SMALLINT)", "INT": "70000",
    "BIGINT": "CAST(5000000000 AS BIGINT)", "FLOAT": "CAST(0.1 AS FLOAT)", "DOUBLE": "CAST(0.1 AS DOUBLE)",
    "DECIMAL(10, 2)": "CAST(12.34 AS DECIMAL(10, 2))", "DECIMAL(30, 5)": "CAST('-1234567890123456789.12345' AS DECIMAL(30, 5))",
    "STRING": "'ä b'", "BYTES": "x'00ff'", "DATE": "DATE '1969-12-31'",
    "TIMESTAMP(6)": "TIMESTAMP '2024-02-29 12:00:00.123456'",
    "ARRAY<INT>": "ARRAY[1, 2]",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def env() -> Iterator[None]:
    try:
        paths_of(["parquet", "orc"])
    except BridgeError as error:
        pytest.skip(f"Flink's formats cannot be had: {error}")
    useLocalEnv(
        1, config={"jars": ["parquet", "orc"], "execution.checkpointing.interval": "300 ms"}
    )
    yield
    resetEnv()


def table_of(
    table_env: Any, folder: pathlib.Path, form: str, columns: str, partition: str = ""
) -> str:
    name, more = (
        f"{form}_{folder.name}",
        ", 'parquet.utc-timezone' = 'true'" if form == "parquet" else "",
    )
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE {name} ({columns}) {partition} "
        f"WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = '{form}'{more})"
    )
    return name


def rows(op: BatchOperator) -> list[str]:
    return sorted(map(repr, op.collectToDataframe().itertuples(index=False)))


@pytest.mark.parametrize("form", ["parquet", pytest.param("orc", marks=pytest.mark.long)])
def test_rows_and_types_are_those_that_flink_reads(form: str, tmp_path: pathlib.Path) -> None:
    tables, theirs = getMLEnv().btenv, tmp_path / "theirs"
    columns = {f"c{number}": kind for number, kind in enumerate(VALUES)}
    schema = "id INT, " + ", ".join(f"{name} {kind}" for name, kind in columns.items())
    cells = ", ".join(f"CASE WHEN id < 2 THEN {value} END" for value in VALUES.values())
    source = f"SELECT id, {cells} FROM (VALUES (1), (2)) AS ids (id)"
    written = table_of(tables, theirs, form, schema)
    tables.execute_sql(f"INSERT INTO {written} {source}").wait()
    expected = rows(BatchOperator.fromTable(tables.from_path(written)))
    assert len(expected) == 2 and "None" in expected[1]

    read = FileSourceBatchOp(filePath=f"{theirs}/", format=form)
    assert dict(zip(read.getColNames(), read.getColTypes())) == {"id": "INT", **columns}
    assert rows(read) == expected


def test_growing_folders_written_by_flink_are_followed(tmp_path: pathlib.Path) -> None:
    """Flink writes folders by day as a stream; our source reads their names as a column, and
    follows.
    """
    tables, folder = getMLEnv().stenv, tmp_path / "days"
    written = table_of(tables, folder, "parquet", "id BIGINT, `day` INT", "PARTITIONED BY (`day`)")
    seen = table_of(tables, tmp_path / "seen", "csv", "id BIGINT, `day` BIGINT")
    tables.execute_sql(f"INSERT INTO {written} VALUES (1, 1), (2, 2)").wait()
    assert sorted(
        map(
            tuple,
            FileSourceBatchOp(filePath=f"{folder}/", format="parquet")
            .collectToDataframe()
            .to_numpy(),
        )
    ) == [
        (1, 1),
        (2, 2),
    ]
    stream = FileSourceStreamOp(filePath=f"{folder}/", format="parquet", scanInterval=0.3)
    job = (
        StreamOperator.fromTable(stream.getOutputTable())
        .getOutputTable()
        .execute_insert(seen)
        .get_job_client()
    )

    def lines() -> list[str]:
        return sorted(
            line for path in (tmp_path / "seen").glob("part-*") for line in path.read_text().split()
        )

    wait_until(lambda: lines() == ["1,1", "2,2"], "the first files are read", 2 * DEADLINE_S)
    tables.execute_sql(f"INSERT INTO {written} VALUES (3, 2), (4, 3)").wait()
    wait_until(
        lambda: lines() == ["1,1", "2,2", "3,2", "4,3"],
        "files that appear later are read",
        2 * DEADLINE_S,
    )
    job.cancel().result()
