"""Stream jobs that tests watch while they run."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

from operators import StreamOperator, getMLEnv
from operators.base.job import running as job_of
from tests.support.leftovers import DEADLINE_S, wait_until


class Running:
    """A job whose rows are collected as they come.

    PyFlink takes several calls into the JVM for each row, some hundred rows per second on a slow
    machine and some tens beside other load: a source should be slower than that, or `rows` falls
    behind.
    """

    def __init__(self, op: StreamOperator) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.error: BaseException | None = None
        self.client: Any = None
        self._op = op
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with job_of(self._op):
                self._collect()
        except BaseException as error:
            self.error = error

    def _collect(self) -> None:
        result = self._op.getOutputTable().execute()
        self.client = result.get_job_client()
        with result.collect() as rows:
            for row in rows:
                self.rows.append(tuple(row))
                if self._cancelled.is_set():
                    break

    @property
    def runs(self) -> bool:
        return self._thread.is_alive()

    def wait_for(self, condition: Any, what: str, deadline_s: float = 4 * DEADLINE_S) -> None:
        """Wait for something while the job runs without an error."""
        wait_until(lambda: self.error is not None or condition(), what, deadline_s)
        if self.error is not None:
            raise self.error

    def predicts(self, value: float) -> bool:
        """Whether the second column of the latest rows has this value, in both subtasks: one may be
        behind the other.
        """
        latest = [
            [row[1] for row in self.rows[-1000:] if row[0] % 2 == subtask][-10:]
            for subtask in (0, 1)
        ]
        return all(cells == [value] * 10 for cells in latest)

    def cancel(self) -> None:
        if self.runs and self.client is not None:
            self._cancelled.set()
            with contextlib.suppress(Exception):
                self.client.cancel().result()
        self._thread.join(4 * DEADLINE_S)
        assert not self._thread.is_alive()


@contextlib.contextmanager
def running(op: StreamOperator) -> Iterator[Running]:
    """Run a job until the block ends."""
    job = Running(op)
    try:
        yield job
    finally:
        job.cancel()


def all_rows(op: StreamOperator) -> list[tuple[Any, ...]]:
    """Return the rows of a stream with an end."""
    with running(op) as job:
        job.wait_for(lambda: not job.runs, "the job has ended")
        return job.rows


def check_once(rows: list[tuple[Any, ...]]) -> None:
    """Check that every row of `counting` has come once: each of the two subtasks of the source
    counts in steps of two.
    """
    for first in (0, 1):
        ids = [row[0] for row in rows if row[0] % 2 == first]
        assert ids == list(range(first, 2 * len(ids), 2))


def check_switches(rows: list[tuple[Any, ...]], values: list[float]) -> None:
    """Check that every row has come once, and that the second column goes through these rising
    values.
    """
    check_once(rows)
    assert sorted({row[1] for row in rows}) == values
    for subtask in (0, 1):
        found = [row[1] for row in rows if row[0] % 2 == subtask]
        assert found == sorted(found), "after a switch there are new ones only"


class SentModels:
    """A stream of models, which come when they are sent.

    Args:
        folder: Where they pass; it does not exist yet.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._sent = 0

    def stream(self) -> StreamOperator:
        env = getMLEnv().stenv
        name = f"sent_models_{id(self)}"
        env.execute_sql(
            f"CREATE TEMPORARY TABLE {name} (model_id BIGINT, model_info STRING) WITH ('connector' = 'filesystem', "
            f"'path' = '{self._folder}', 'format' = 'json', 'source.monitor-interval' = '200ms')"
        )
        return StreamOperator.fromTable(env.from_path(name))

    def send(self, rows: list[tuple[int, str]]) -> None:
        self._sent += 1
        part = self._folder / ".part"
        part.write_text(
            "".join(
                json.dumps({"model_id": number, "model_info": text}) + "\n" for number, text in rows
            )
        )
        os.rename(part, self._folder / f"{self._sent}.json")
