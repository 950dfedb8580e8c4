"""Several tables in one job: what they have in common runs once."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pyarrow as pa
import pytest
from pyflink.java_gateway import get_gateway

from bridge import settings
from bridge.host.program_folder import program_folder
from operators import MLEnv
from operators.flink.joint_job import run_jointly
from tests.support.leftovers import DEADLINE_S, wait_until

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


def test_one_job_gives_rows_to_receivers_and_a_table(
    env: MLEnv, called: Any, tmp_path: pathlib.Path
) -> None:
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
    assert sorted("".join(part.read_text() for part in (tmp_path / "t").iterdir()).split()) == [
        "1",
        "2",
        "3",
    ]
    assert sorted((tmp_path / "calls").read_text().split()) == ["1", "2", "3"], (
        "once for three results"
    )


class Unremovable(Kept):
    def abandon(self) -> None:
        raise OSError("the disk is gone")


def test_receivers_are_told_that_their_job_failed(env: MLEnv) -> None:
    kept = Kept()
    table = env.btenv.sql_query("SELECT 1 / (n - 1) AS x FROM (VALUES (1)) AS v(n)")
    with pytest.raises(Exception, match="(?i)zero"):
        run_jointly(env.btenv, [(table, Unremovable()), (table, kept)], [], None)
    assert kept.end == "abandoned" and not files_of_jobs()


def files_of_jobs() -> list[list[str]]:
    """Files in each folder that a running job shares with this program."""
    folders = [name for name in os.listdir(program_folder()) if name.startswith("collected_")]
    return [os.listdir(os.path.join(program_folder(), name)) for name in folders]


def ids(env: MLEnv) -> Any:
    """A table of 20,000 numbers."""
    env.btenv.execute_sql(
        "CREATE TEMPORARY TABLE IF NOT EXISTS twenty_thousand (id BIGINT) WITH ('connector' = 'datagen', "
        "'number-of-rows' = '20000', 'rows-per-second' = '1000000', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0', "
        "'fields.id.end' = '19999')"
    )
    return env.btenv.from_path("twenty_thousand")


class Slow(Kept):
    """Takes the first rows when as many files wait as may."""

    most = 0

    def take(self, batch: pa.RecordBatch) -> None:
        if not self.rows:
            wait_until(lambda: len(files_of_jobs()[0]) >= 8, "the job is ahead", 4 * DEADLINE_S)
        self.most = max(self.most, *map(len, files_of_jobs()))
        super().take(batch)


@pytest.mark.fault("data", "A slow program holds up the job, whose rows do not fill the disk")
def test_few_files_wait_for_a_slow_receiver(env: MLEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "CHUNK_BYTES", 4096)
    slow = Slow()
    run_jointly(env.btenv, [(ids(env), slow)], [], None)
    assert [row["id"] for row in slow.rows] == list(range(20_000))
    assert slow.most == 8 and not files_of_jobs()


class Failing(Slow):
    """Fails while the job waits for it."""

    def take(self, batch: pa.RecordBatch) -> None:
        super().take(batch)
        raise OSError("no space left")


@pytest.mark.fault(
    "jobs",
    "A job that waits for a program whose disk is full is cancelled, and its files are removed",
)
def test_a_job_that_waits_for_a_failed_receiver_ends(
    env: MLEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "CHUNK_BYTES", 4096)
    failing, table = Failing(), ids(env)
    with pytest.raises(OSError, match="no space left"):
        run_jointly(env.btenv, [(table, failing)], [], None)
    assert failing.end == "abandoned" and not files_of_jobs()
    threads = get_gateway().jvm.Thread
    wait_until(
        lambda: (
            not [
                each
                for each in threads.getAllStackTraces().keySet()
                if "twenty_thousand" in each.getName()
            ]
        ),
        "the job has ended",
    )
