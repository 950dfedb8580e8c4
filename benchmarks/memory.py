"""Peak memory of every process while rows are sent into a script and back.

    python benchmarks/memory.py [--rounds N] [--folder FOLDER] [--scale SHARE]

The script writes back each batch that it reads, so both directions carry all rows. Each size runs
in a driver of its own, in BATCH mode. Memory is peak resident memory, as the kernel counts it
(VmHWM), of the driver (Flink's Python functions run in it), of the JVM, and of the TensorFlow
process. The JVM's memory outside its heap counts, Arrow's buffers too: if they leaked, the larger
size would take 1.2 GB more. Linux only.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

from feed import PLAIN
from jobs import SCRIPTS, RandomRows, script_job
from processes import KINDS, peak_mb, processes
from report import Figure, parser, report

# Queues, buffers and the allocators of many threads fill while the first millions of rows pass;
# nothing may grow after them.
SMALL, LARGE = 8_000_000, 32_000_000
SCRIPT = SCRIPTS / "write_back.py"
EACH_S = 0.1
# A heap grows to its maximum before a collection: this much has to suffice for any size, and counts
# from the start.
HEAP = "-Xms400m -Xmx400m -XX:+AlwaysPreTouch"


@contextlib.contextmanager
def watched() -> Iterator[dict[str, float]]:
    """Yield the peaks in MB by kind of process, which are updated meanwhile."""
    import psutil

    peaks: dict[str, float] = {}
    ended = threading.Event()

    def look() -> None:
        for kind, process in processes():
            with contextlib.suppress(psutil.Error, OSError, StopIteration):  # it has just ended
                peaks[kind] = max(peaks.get(kind, 0.0), peak_mb(process.pid))

    def watch() -> None:
        while not ended.wait(EACH_S):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield peaks
    ended.set()
    thread.join()
    look()


def run(rows: int) -> dict[str, float]:
    """Run one job in this process and return the peaks in MB."""
    from operators import useLocalEnv

    os.environ.setdefault("JVM_ARGS", HEAP)
    table_env = useLocalEnv(1).btenv
    numbers = RandomRows(table_env, "numbers", PLAIN).table(rows)
    output = ", ".join(f"{name} {kind}" for name, kind in PLAIN.items())
    with watched() as peaks:
        table_env.create_temporary_view(
            "written", script_job(numbers, SCRIPT, output).getOutputTable()
        )
        ((found, ids),) = (
            table_env.sql_query("SELECT COUNT(*), COUNT(id) FROM written").execute().collect()
        )
    if (found, ids) != (rows, rows):
        raise SystemExit(f"{found} rows of {rows} came back, {ids} with an id")
    return peaks


def _measured(rows: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--one", str(rows)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    peaks: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return peaks


def main() -> None:
    """Measure and report."""
    known = parser(rounds=1)
    known.add_argument("--scale", type=float, default=1.0, help="of both sizes")
    given = known.parse_args()
    small, large = int(SMALL * given.scale), int(LARGE * given.scale)
    pairs = [(_measured(large), _measured(small)) for _ in range(given.rounds)]
    figures = [
        Figure(
            kind,
            "MB",
            [more[kind] for more, _ in pairs],
            [less[kind] for _, less in pairs],
            f"{small:,} rows",
            1.15,
        )
        for kind in KINDS
    ]
    report("memory", f"Peak memory with {large:,} rows", figures, given.folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(run(int(sys.argv[2]))))
    else:
        main()
