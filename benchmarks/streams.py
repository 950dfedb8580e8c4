"""Delay and memory of a stream: `python benchmarks/streams.py [SECONDS [ROWS_PER_SECOND [CHART.png]]]`.

Rows with the time of their sending come through a socket at a steady rate, 10 minutes and 5,000 rows a second when nothing
else is said, go through a script that writes them back, and are compared with the clock where they leave. The time counts
from the script's first batch: start-up has a benchmark of its own. Prints the distribution of the delays of rows after the
first quarter of the time (those of the last second apart: they leave when the script has ended), and how the memory of
every process grew from the second quarter to the last; draws a histogram.
Fails when a row is missing or doubled. Linux only.
"""

import collections
import json
import os
import pathlib
import socket
import statistics
import sys
import tempfile
import threading
import time

from jobs import kind_of

SCRIPT = """
import tensorflow as tf

def main(task_config):
    spec = {"id": tf.io.FixedLenFeature([], tf.int64), "sent": tf.io.FixedLenFeature([], tf.int64)}
    for records in task_config.dataset_fn().batch(64):
        rows = tf.io.parse_example(records, spec)
        task_config.output_writer.write_batch({"id": rows["id"], "sent": rows["sent"]})
        open(task_config.user_params["begun"], "a").close()
"""
PACE_S = 0.005
START_UP_S = 120.0


def feed(server: socket.socket, per_second: int, ended: threading.Event) -> int:
    """Send rows at a steady rate from when the job has connected until the end, and return how many."""
    connection, _ = server.accept()
    sent, first = 0, time.monotonic()
    with connection:
        while not ended.is_set():
            due = int((time.monotonic() - first) * per_second)
            now = int(time.time() * 1000)
            connection.sendall("".join(f"{number},{now}\n" for number in range(sent, due)).encode())
            sent = due
            time.sleep(PACE_S)
    return sent


def memory_mb() -> dict:
    """Return the resident memory of this program's processes by kind."""
    import psutil

    found: dict = collections.Counter()
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            found[kind_of(process)] += process.memory_info().rss / 1e6
        except psutil.NoSuchProcess:
            continue  # it has just ended
    return dict(found)


def run(seconds: float, per_second: int, folder: pathlib.Path) -> dict:
    """Run the job and return its figures: rows, delays in ms, memory in MB over time."""
    from pyflink.datastream import DataStream

    from operators import StreamOperator, TensorFlow2StreamOp, useLocalEnv

    os.environ.setdefault("JVM_ARGS", "-Xmx1g")  # else the heap grows to a quarter of the machine before it is cleaned
    environments = useLocalEnv(1)
    table_env = environments.stenv
    table_env.get_config().set("table.local-time-zone", "UTC")
    server = socket.create_server(("127.0.0.1", 0))
    script = folder / "identity.py"
    script.write_text(SCRIPT)
    lines = environments.senv._j_stream_execution_environment.socketTextStream("127.0.0.1", server.getsockname()[1])
    table_env.create_temporary_view("lines", table_env.from_data_stream(DataStream(lines)))
    numbers = ", ".join(f"CAST(SPLIT_INDEX(f0, ',', {place}) AS BIGINT) AS {name}" for place, name in enumerate(("id", "sent")))
    op = TensorFlow2StreamOp(
        userFiles=[str(script)], mainScriptFile=str(script), outputSchemaStr="id BIGINT, sent BIGINT", numWorkers=1, numPSs=0,
        userParams=json.dumps({"begun": str(folder / "begun")}),
    )  # fmt: skip
    StreamOperator.fromTable(table_env.sql_query(f"SELECT {numbers} FROM lines")).link(op)
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE arrived (id BIGINT, sent BIGINT, seen TIMESTAMP(3)) WITH ('connector' = 'filesystem', "
        f"'path' = '{folder / 'arrived'}', 'format' = 'csv')"
    )
    seen = op.select("id, sent, CAST(CURRENT_ROW_TIMESTAMP() AS TIMESTAMP(3)) AS seen").getOutputTable()
    job = seen.execute_insert("arrived")
    sent: list = []
    ended = threading.Event()
    feeder = threading.Thread(target=lambda: sent.append(feed(server, per_second, ended)), daemon=True)
    feeder.start()
    limit = time.monotonic() + START_UP_S
    while not (folder / "begun").exists():
        if time.monotonic() > limit:
            raise SystemExit(f"no batch has reached the script within {START_UP_S:g} s")
        time.sleep(PACE_S)
    memory = []
    begun = time.time()
    while not ended.wait(1.0):
        memory.append(memory_mb())
        if time.time() - begun >= seconds:
            ended.set()
    feeder.join()
    job.wait()
    server.close()
    delays, ids = [], []
    for path in (folder / "arrived").rglob("part-*"):
        for line in path.read_text().splitlines():
            number, then, now = line.split(",")
            ids.append(int(number))
            delays.append((int(then), _milliseconds(now.strip('"')) - int(then)))
    if sorted(ids) != list(range(sent[0])):
        raise SystemExit(f"{sent[0]} rows were sent, {len(ids)} arrived, {len(set(ids))} different ones")
    first, last = 1000 * (begun + seconds / 4), 1000 * (begun + seconds - 1)
    warm = [delay for then, delay in delays if first <= then < last]
    at_end = [delay for then, delay in delays if then >= last]
    return {"rows": sent[0], "delays_ms": warm, "at_end_ms": at_end, "memory_mb": memory}


def _milliseconds(text: str) -> float:
    import datetime

    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc).timestamp() * 1000


def growth(memory: list) -> dict:
    """Return, for each kind of process, its mean memory in the second and in the last quarter of the time, in MB."""
    quarter = max(len(memory) // 4, 1)
    kinds = {kind for sizes in memory for kind in sizes}
    second, last = memory[quarter : 2 * quarter] or memory, memory[-quarter:]
    return {
        kind: tuple(statistics.mean(sizes.get(kind, 0.0) for sizes in part) for part in (second, last))
        for kind in sorted(kinds)
    }


def draw(figures: dict, chart: pathlib.Path) -> None:
    """Draw a histogram of the delays."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.5))
    axes.hist(figures["delays_ms"], bins=100, range=(0, _quantile(figures["delays_ms"], 0.999)))
    axes.set_xlabel("delay from source to sink, ms")
    axes.set_ylabel("rows")
    figure.tight_layout()
    figure.savefig(chart)


def _quantile(values: list, share: float) -> float:
    return float(sorted(values)[min(int(len(values) * share), len(values) - 1)])


def main(seconds: float = 600.0, per_second: int = 5000, chart: str = "streams.png") -> None:
    """Run, print and draw."""
    with tempfile.TemporaryDirectory() as folder:
        figures = run(seconds, per_second, pathlib.Path(folder))
    delays = figures["delays_ms"]
    quantiles = {f"p{100 * share:g}": _quantile(delays, share) for share in (0.5, 0.9, 0.99, 0.999)}
    print(f"{figures['rows']:,} rows at {per_second:,} rows/s, each once")
    print("delay in ms: " + ", ".join(f"{name} {value:.0f}" for name, value in quantiles.items()) + f", max {max(delays):.0f}")
    print(f"of the last second, which wait for the script's end: max {max(figures['at_end_ms']):.0f} ms")
    sizes = growth(figures["memory_mb"])
    print("memory in MB, second to last quarter: " + ", ".join(f"{k} {a:,.0f} to {b:,.0f}" for k, (a, b) in sizes.items()))
    draw(figures, pathlib.Path(chart))
    saved = pathlib.Path(chart).with_suffix(".json")
    saved.write_text(json.dumps({"rows": figures["rows"], "delay_ms": quantiles, "memory_mb": sizes}, indent=1))
    print(f"histogram in {chart}, figures in {saved}")


if __name__ == "__main__":
    main(*(kind(text) for kind, text in zip((float, int, str), sys.argv[1:])))
