"""Event time of a real Kafka through a script: partitions that lag or are idle, watermark
alignment, and an hour of backlog.
"""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator
from typing import Any

import pytest

from bridge.flink.time_attributes import with_event_time
from operators import MLEnv, StreamOperator, resetEnv, useLocalEnv
from tests.e2e.test_event_time import script
from tests.support.deadline import DEADLINE_S
from tests.support.kafka import Broker

pytestmark = [pytest.mark.flink, pytest.mark.long]

PER_MINUTE = 1000  # messages of each partition in use
AHEAD, BEHIND = "ahead", "behind"  # keys of two partitions; the third one has no message
KEYED = {"key.format": "raw", "key.fields": "k"}
WATERMARK = ("t", "SOURCE_WATERMARK()")
Window = tuple[int, int, int]  # messages, different ids, and their sum


@pytest.fixture(scope="module")
def env() -> Iterator[MLEnv]:
    yield useLocalEnv(2, config={"jars": ["kafka"], "taskmanager.memory.managed.size": "512m"})
    resetEnv()


class Messages:
    """Messages in a topic, and the windows of a minute that they belong to."""

    def __init__(self, table_env: Any, table: str, folder: pathlib.Path) -> None:
        self._table_env, self._table, self._folder = table_env, table, folder
        self._minutes: dict[int, list[int]] = {}
        self._draw = random.Random(5)

    def send(self, starts: dict[str, int], minutes: int) -> None:
        """Send messages of some minutes, from the start of each key on, up to 4 seconds out of
        order.
        """
        first, lines = sum(map(len, self._minutes.values())), []
        for number in range(minutes * PER_MINUTE):
            for place, (key, start) in enumerate(starts.items()):
                time = start * 60_000 + number * 60_000 // PER_MINUTE - self._draw.randrange(4000)
                identity = first + number * len(starts) + place
                self._minutes.setdefault(time // 60_000, []).append(identity)
                lines.append(f"{identity},{time},{key}\n")
        file = self._folder / f"messages_{first}"
        file.write_text("".join(lines))
        self._table_env.execute_sql(
            f"CREATE TEMPORARY TABLE {file.name} (id BIGINT, ms BIGINT, k STRING) WITH ('connector' = 'filesystem', 'path' = "
            f"'{file}', 'format' = 'csv')"
        )
        self._table_env.execute_sql(f"INSERT INTO {self._table} SELECT * FROM {file.name}").wait()

    def windows(self, until: int) -> dict[int, Window]:
        """Windows before a minute as they should be."""
        return {
            minute: (len(ids), len(set(ids)), sum(ids))
            for minute, ids in self._minutes.items()
            if minute < until
        }


@pytest.mark.fault(
    "data",
    "Partitions of Kafka lag, are or become idle, and wait for each other: windows behind a script lose no row",
)
def test_windows_close_for_lagging_and_idle_partitions(
    env: MLEnv, kafka: Broker, tmp_path: pathlib.Path
) -> None:
    """The two hours of two partitions wait when the job starts; then one of them goes on alone."""
    tables = env.stenv
    # longer than a busy machine takes to read one
    tables.get_config().set("table.exec.source.idle-timeout", f"{DEADLINE_S / 3:.0f} s")
    kafka.table(tables, "sent", "id BIGINT, ms BIGINT, k STRING", topic="timed", **KEYED)
    messages = Messages(tables, "sent", tmp_path)
    messages.send({AHEAD: 60, BEHIND: 0}, 60)
    aligned = {
        "scan.watermark.alignment.group": "minutes", "scan.watermark.alignment.max-drift": "1 min",
        "scan.watermark.alignment.update-interval": "100 ms", "scan.parallelism": "2",
    }  # fmt: skip
    columns = "id BIGINT, ms BIGINT, k STRING, t AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR t AS t - INTERVAL '5' SECOND"
    kafka.table(tables, "timed", columns, **KEYED, **aligned)
    # As a stream, so that the windows before and behind the script share one source, and what it
    # takes for idle.
    before = with_event_time(tables, tables.sql_query("SELECT id, t FROM timed"), WATERMARK)
    op = script(
        2, outputSchemaStr=f"id BIGINT, t TIMESTAMP_LTZ(3), WATERMARK FOR {' AS '.join(WATERMARK)}"
    )
    behind = StreamOperator.fromTable(before).link(op).getOutputTable()
    windows = []
    for name, table in {"before": before, "behind": behind}.items():
        tables.create_temporary_view(name, table)
        windows.append(
            f"SELECT '{name}', UNIX_TIMESTAMP(CAST(window_start AS STRING)) / 60, COUNT(*), COUNT(DISTINCT id), SUM(id) FROM "
            f"TABLE(TUMBLE(TABLE {name}, DESCRIPTOR(t), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
        )
    found: dict[str, dict[int, Window]] = {"before": {}, "behind": {}}
    result = tables.sql_query(" UNION ALL ".join(windows)).execute()
    with result.collect() as rows:

        def collect(wanted: dict[int, Window]) -> None:
            """Take windows until all of them have come from both; windows of a minute come from
            either subtask, in no order.
            """
            while not all(wanted.keys() <= each.keys() for each in found.values()):
                name, minute, *values = next(rows)
                assert minute not in found[name]
                found[name][minute] = tuple(values)

        # those before the watermark, when all partitions have become idle
        wanted = messages.windows(119)
        collect(wanted)
        assert found == dict.fromkeys(found, wanted)
        messages.send({AHEAD: 120}, 10)
        wanted = messages.windows(129)
        collect(wanted)
        assert found == dict.fromkeys(found, wanted)
    result.get_job_client().cancel().result()
