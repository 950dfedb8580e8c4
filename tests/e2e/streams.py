"""Streams for tests: their sources, their jobs, and what came out of them."""

from __future__ import annotations

import collections
import pathlib
import re
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError

from operators import StreamOperator, TensorFlow2StreamOp
from tests.e2e.jobs import SCRIPTS
from tests.support.leftovers import DEADLINE_S

SCHEMA = "worker INT, id BIGINT"


def stream_op(name: str, workers: int = 1, **params: object) -> TensorFlow2StreamOp:
    """Return an operator that runs a script of tests/e2e/scripts/stream on independent workers."""
    files = [str(SCRIPTS / "stream" / name), str(SCRIPTS / "tfrecords.py")]
    return TensorFlow2StreamOp(
        userFiles=files,
        mainScriptFile=files[0],
        outputSchemaStr=SCHEMA,
        numWorkers=workers,
        numPSs=0,
        **params,
    )


def counting(table_env: Any, rows: int, per_second: int = 1_000_000_000) -> StreamOperator:
    """Return a stream with the BIGINT column `id` that counts from 0; Flink goes on where it was
    after a failure.
    """
    name = f"counting_{rows}_{per_second}"
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE IF NOT EXISTS {name} (id BIGINT) WITH ('connector' = 'datagen', "
        f"'rows-per-second' = '{per_second}', 'number-of-rows' = '{rows}', 'fields.id.kind' = 'sequence', "
        f"'fields.id.start' = '0', 'fields.id.end' = '{rows - 1}')"
    )
    return StreamOperator.fromTable(table_env.from_path(name))


def stop_with_savepoint(client: Any, folder: pathlib.Path | str) -> str:
    """Stop the job of a PyFlink client without draining it, and return the path of its savepoint.

    PyFlink fails the job if a timer of a Python function fires after its task closed its mailbox.
    The savepoint is complete then; sinks commit their last files when a job starts from it.
    """
    place = folder if isinstance(folder, str) else folder.as_uri()
    try:
        return str(client.stop_with_savepoint(False, place).result())
    except Py4JJavaError as error:
        found = re.search(
            r"StopWithSavepointStoppingException: .* created at: (\S+), but .* is consistent",
            str(error),
        )
        if found is None:
            raise
        return found[1]


@contextmanager
def socket_stream(environments: Any) -> Iterator[tuple[StreamOperator, Any]]:
    """Yield a stream without end with the BIGINT column `id`, and a function that sends ids into
    it.
    """
    from pyflink.datastream import DataStream

    server = socket.create_server(("127.0.0.1", 0))
    connected, connections = threading.Event(), []

    def accept() -> None:
        connections.append(server.accept()[0])
        connected.set()

    threading.Thread(target=accept, daemon=True).start()

    def send(ids: Sequence[int]) -> None:
        assert connected.wait(4 * DEADLINE_S), "Flink did not connect to the source"
        connections[0].sendall("".join(f"{number}\n" for number in ids).encode())

    port = server.getsockname()[1]
    lines = DataStream(
        environments.senv._j_stream_execution_environment.socketTextStream("127.0.0.1", port)
    )
    table_env = environments.stenv
    table_env.create_temporary_view(f"lines_{port}", table_env.from_data_stream(lines))
    try:
        yield (
            StreamOperator.fromTable(
                table_env.sql_query(f"SELECT CAST(f0 AS BIGINT) AS id FROM lines_{port}")
            ),
            send,
        )
    finally:
        for connection in connections:
            connection.close()
        server.close()


class Sink:
    """A table whose rows end up in files that can be read while the job runs.

    Args:
        table_env: Where the table is made.
        folder: Where the files are.
    """

    def __init__(self, table_env: Any, folder: pathlib.Path) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
        self.name = f"sink_{self.folder.name}"
        table_env.execute_sql(
            f"CREATE TEMPORARY TABLE {self.name} ({SCHEMA}) WITH ('connector' = 'filesystem', 'path' = '{self.folder}', "
            "'format' = 'csv', 'sink.rolling-policy.check-interval' = '1 s')"
        )

    def rows(self, pattern: str = "*") -> list[tuple[int, int]]:
        """Return (worker, id) of all rows so far, in no order; by default also those that are not
        final yet.
        """
        found = []
        for path in self.folder.rglob(pattern):
            if path.is_file():
                lines = path.read_text().splitlines(keepends=True)
                found += [tuple(map(int, line.split(","))) for line in lines if line.endswith("\n")]
        return found

    def final_rows(self) -> list[tuple[int, int]]:
        """Return those that a checkpoint, or the end of the job, has made final."""
        return self.rows("part-*")

    def counts(self) -> dict[int, int]:
        """Return how often each id came, of the final rows."""
        return collections.Counter(number for _, number in self.final_rows())
