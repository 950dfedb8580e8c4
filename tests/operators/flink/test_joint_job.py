"""Several tables in one job: what they have in common runs once."""

from __future__ import annotations

import pathlib
from typing import Any

import pyarrow as pa
import pytest

from operators import MLEnv
from operators.flink.joint_job import run_jointly

pytestmark = pytest.mark.flink


class Kept:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []
        self.end = ""

    def take(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.to_pylist()

    def finish(self) -> None:
        self.end = "finished"

    def abandon(self) -> None:
        self.end = "abandoned"


@pytest.fixture
def called(env: MLEnv, tmp_path: pathlib.Path) -> Any:
    """A table whose rows come from a function that writes down its calls."""
    from pyflink.common import Types

    path = str(tmp_path / "calls")

    def count(number: int) -> int:
        with open(path, "a") as file:
            file.write(f"{number}\n")
        return number

    stream = env.benv.from_collection([1, 2, 3], Types.INT()).map(count, Types.INT())
    return env.btenv.from_data_stream(stream).alias("n")


def test_rows_for_this_program_and_for_a_table(env: MLEnv, called: Any, tmp_path: pathlib.Path) -> None:
    table_env = env.btenv
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE target (n INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'csv')"
    )
    table_env.create_temporary_view("counted", called)
    downwards, none = Kept(), Kept()
    try:
        run_jointly(
            table_env,
            [
                (table_env.sql_query("SELECT n, 'x' AS s FROM counted ORDER BY n DESC"), downwards),
                (table_env.sql_query("SELECT n FROM counted WHERE n > 9"), none),
            ],
            [(called, "target")],
            "one job",
        )
    finally:
        table_env.drop_temporary_view("counted")
        table_env.drop_temporary_table("target")
    assert downwards.rows == [{"n": 3, "s": "x"}, {"n": 2, "s": "x"}, {"n": 1, "s": "x"}]
    assert (none.rows, none.end, downwards.end) == ([], "", "")
    assert sorted("".join(part.read_text() for part in (tmp_path / "t").iterdir()).split()) == ["1", "2", "3"]
    assert sorted((tmp_path / "calls").read_text().split()) == ["1", "2", "3"], "once for three results"


def test_receivers_hear_of_a_job_that_fails(env: MLEnv) -> None:
    kept = Kept()
    table = env.btenv.sql_query("SELECT 1 / (n - 1) AS x FROM (VALUES (1)) AS v(n)")
    with pytest.raises(Exception, match="(?i)zero"):
        run_jointly(env.btenv, [(table, kept)], [], None)
    assert kept.end == "abandoned"
