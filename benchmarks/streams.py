"""Delay and memory of a stream.

    python benchmarks/streams.py [--predict] [--seconds S] [--rate ROWS_PER_SECOND] [--rounds N]
                                 [--folder FOLDER]

Another process sends rows through a socket at a steady rate, by default 5,000 rows a second for 10
minutes, to a script that writes them back. The sink adds the time of arrival. The delay of a row
begins when it is due, so a pause of the sender or of the socket counts too. The time counts from
the script's first batch, since start-up has a benchmark of its own. The first quarter is left out,
and so is the last second, whose rows leave after the end of the script. The rest is divided into N
equal parts, and the p99 of each is one value of the figure. Memory is the mean of the second and of
the last quarter. A histogram of the delays is drawn too. A missing or duplicate row is an error.
With `--predict`, a small model takes the place of the script. Linux only.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pathlib
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import predict
from jobs import SCRIPTS
from processes import KINDS, resident_mb
from report import Figure, parser, report

P99_MS, PREDICT_P99_MS = 190.0, 40.0  # targets
PACE_S = 0.001
# Reading the memory of the processes takes a third of a second of a core.
POLL_S, SAMPLE_S = 0.5, 5.0  # until the start, and from then on
START_UP_S = 120.0
LOADED_MB = 250.0
# A heap grows to its maximum before a collection: this much counts from the start.
HEAP = "-Xms1g -Xmx1g -XX:+AlwaysPreTouch"


@dataclass(frozen=True)
class Stream:
    """Observations of a stream.

    Args:
        rows: Number of rows sent; each arrived once.
        delays: Due time of each row, in seconds from the script's first batch, and its delay in ms;
            by due time.
        memory: Resident memory by kind of process, in MB.
    """

    rows: int
    delays: list[tuple[float, float]]
    memory: list[dict[str, float]]


def send(per_second: int) -> None:
    """Print a port, send rows at a steady rate to its client until stdin ends, and print their
    number.
    """
    server = socket.create_server(("127.0.0.1", 0))
    print(server.getsockname()[1], flush=True)
    connection, _ = server.accept()
    # Otherwise a few rows wait up to 40 ms for the receiver to acknowledge earlier ones.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    begun_ms, begun, sent = 1000 * time.time(), time.monotonic(), 0
    with connection:
        while not select.select([sys.stdin], [], [], PACE_S)[0]:
            due = int((time.monotonic() - begun) * per_second) + 1
            lines = [
                f"{number},{int(begun_ms + 1000 * number / per_second)}\n"
                for number in range(sent, due)
            ]
            connection.sendall("".join(lines).encode())
            sent = due
    print(sent, flush=True)


@contextlib.contextmanager
def sender(per_second: int) -> Iterator[subprocess.Popen[str]]:
    """Start the sending process."""
    command = [sys.executable, __file__, "--send", str(per_second)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def run(seconds: float, per_second: int, folder: pathlib.Path, predicts: bool = False) -> Stream:
    """Run the job and return the observations."""
    from operators import useLocalEnv

    os.environ.setdefault("JVM_ARGS", HEAP)
    environments = useLocalEnv(1)
    with sender(per_second) as sending:
        assert sending.stdin is not None and sending.stdout is not None
        job = start(environments, int(sending.stdout.readline()), folder, predicts)
        limit = time.monotonic() + START_UP_S
        # A model has loaded TensorFlow before its first batch, and the first quarter of the time is
        # left out.
        while not (
            (folder / "begun").exists()
            or (predicts and resident_mb().get("tensorflow", 0.0) > LOADED_MB)
        ):
            if time.monotonic() > limit:
                raise SystemExit(
                    f"no batch has reached the script or the model within {START_UP_S:g} s"
                )
            time.sleep(POLL_S)
        begun, memory = time.time(), []
        while time.time() < begun + seconds:
            time.sleep(SAMPLE_S)
            memory.append(resident_mb())
        sending.stdin.close()
        sent = int(sending.stdout.readline())
        job.wait()
    rows = list(arrived(folder / "arrived"))
    ids = [number for number, _, _ in rows]
    if sorted(ids) != list(range(sent)):
        raise SystemExit(
            f"{sent} rows were sent, {len(ids)} arrived, {len(set(ids))} different ones"
        )
    return Stream(sent, sorted((due / 1000 - begun, seen - due) for _, due, seen in rows), memory)


def start(environments: Any, port: int, folder: pathlib.Path, predicts: bool) -> Any:
    """Start the job, which writes its rows into the folder."""
    from pyflink.datastream import DataStream

    from operators import StreamOperator, TensorFlow2StreamOp, TFSavedModelPredictStreamOp

    table_env = environments.stenv
    table_env.get_config().set("table.local-time-zone", "UTC")
    lines = environments.senv._j_stream_execution_environment.socketTextStream("127.0.0.1", port)
    table_env.create_temporary_view("lines", table_env.from_data_stream(DataStream(lines)))
    numbers = ", ".join(
        f"CAST(SPLIT_INDEX(f0, ',', {place}) AS BIGINT) AS {name}"
        for place, name in enumerate(("id", "sent"))
    )
    op: Any
    if predicts:
        predict.export_model(str(folder / "model"))
        numbers += "".join(f", CAST(RAND() AS FLOAT) AS {name}" for name in predict.COLUMNS)
        op = TFSavedModelPredictStreamOp(
            modelPath=str(folder / "model"),
            outputSchemaStr="y FLOAT",
            selectedCols=predict.COLUMNS,
            reservedCols=["id", "sent"],
        )
    else:
        script = str(SCRIPTS / "identity_stream.py")
        op = TensorFlow2StreamOp(
            userFiles=[script],
            mainScriptFile=script,
            outputSchemaStr="id BIGINT, sent BIGINT",
            numWorkers=1,
            numPSs=0,
            userParams=json.dumps({"begun": str(folder / "begun")}),
        )
    StreamOperator.fromTable(table_env.sql_query(f"SELECT {numbers} FROM lines")).link(op)
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE arrived (id BIGINT, sent BIGINT, seen TIMESTAMP(3)) WITH"
        f" ('connector' = 'filesystem', 'path' = '{folder / 'arrived'}', 'format' = 'csv')"
    )
    seen = op.select(
        "id, sent, CAST(CURRENT_ROW_TIMESTAMP() AS TIMESTAMP(3)) AS seen"
    ).getOutputTable()
    return seen.execute_insert("arrived")


def arrived(folder: pathlib.Path) -> Iterator[tuple[int, float, float]]:
    """Yield the number of each row, its due time and its arrival, both in ms."""
    for path in folder.rglob("part-*"):
        for line in path.read_text().splitlines():
            number, due, seen = line.split(",")
            at = datetime.datetime.fromisoformat(seen.strip('"')).replace(
                tzinfo=datetime.timezone.utc
            )
            yield int(number), float(due), 1000 * at.timestamp()


def parts(stream: Stream, seconds: float, count: int) -> list[list[float]]:
    """Return the delays of the counted rows, in equal parts of the time."""
    first, last = seconds / 4, seconds - 1
    found: list[list[float]] = [[] for _ in range(count)]
    for due, delay in stream.delays:
        if first <= due < last:
            found[int(count * (due - first) / (last - first))].append(delay)
    return found


def growth(memory: list[dict[str, float]], kind: str) -> tuple[float, float]:
    """Return the mean memory of a kind of process in the second and in the last quarter of the
    time, in MB.
    """
    quarter = max(len(memory) // 4, 1)
    second, last = memory[quarter : 2 * quarter] or memory, memory[-quarter:]
    before, after = (
        statistics.mean(sizes.get(kind, 0.0) for sizes in part) for part in (second, last)
    )
    return before, after


def draw(delays: list[float], chart: pathlib.Path) -> None:
    """Draw a histogram of the delays."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.5))
    axes.hist(delays, bins=100, range=(0, _quantile(delays, 0.999)))
    axes.set_xlabel("delay from source to sink, ms")
    axes.set_ylabel("rows")
    figure.tight_layout()
    figure.savefig(chart)
    pyplot.close(figure)


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def main() -> None:
    """Measure and report."""
    known = parser()
    known.add_argument("--seconds", type=float, default=600.0)
    known.add_argument("--predict", action="store_true")
    known.add_argument("--rate", type=int, default=5000, help="rows per second")
    given = known.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        stream = run(given.seconds, given.rate, pathlib.Path(folder), given.predict)
    each = parts(stream, given.seconds, given.rounds)
    delays = [delay for part in each for delay in part]
    print(f"{stream.rows:,} rows at {given.rate:,} rows/s, each once")
    quantiles = ", ".join(
        f"p{100 * share:g} {_quantile(delays, share):.0f}" for share in (0.5, 0.9, 0.99, 0.999)
    )
    print(f"delay in ms: {quantiles}, max {max(delays):.0f}")
    p99 = [_quantile(part, 0.99) for part in each]
    figures = [
        Figure(
            "delay, p99",
            "ms",
            p99,
            [PREDICT_P99_MS if given.predict else P99_MS] * len(p99),
            "asked for",
            1.0,
        )
    ]
    for kind in KINDS:
        before, after = growth(stream.memory, kind)
        figures.append(
            Figure(f"memory, {kind}", "MB", [after], [before], "in the second quarter", 1.15)
        )
    report(
        "streams",
        f"A stream of {given.rate:,} rows/s for {given.seconds:g} s",
        figures,
        given.folder,
    )
    draw(delays, given.folder / "delays.png")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--send"]:
        send(int(sys.argv[2]))
    else:
        main()
