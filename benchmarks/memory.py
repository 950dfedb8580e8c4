"""Peak memory of every process while rows pass through TensorFlow2BatchOp: `python benchmarks/memory.py [--folder FOLDER]`.

Each size runs in a driver of its own, in BATCH mode. Memory is resident and at its peak, as the kernel counts it (VmHWM), in
the driver (Flink's Python functions live in it), in the JVM, and in the TensorFlow process. Linux only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

from feed import PLAIN
from jobs import SCRIPTS, kind_of, random_table, script_job
from peak_memory import peak_mb
from report import Figure, arguments, report

SMALL, LARGE = 300_000, 3_000_000
SCRIPT = SCRIPTS / "read_batches.py"


def run(rows: int) -> dict[str, float]:
    """Run one job in this process and return the peaks in MB."""
    import psutil

    from operators import useLocalEnv

    peaks: dict[str, float] = {}

    def watch() -> None:
        while True:
            for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
                try:
                    kind, peak = kind_of(process), peak_mb(process.pid)
                except (psutil.Error, OSError, StopIteration):
                    continue  # it has just ended
                if kind != "driver" or process.pid == psutil.Process().pid:
                    peaks[kind] = max(peaks.get(kind, 0), peak)
            time.sleep(0.1)

    # A heap grows to what it may before it is cleaned: this much has to do for any size, and counts from the start.
    os.environ.setdefault("JVM_ARGS", "-Xms400m -Xmx400m -XX:+AlwaysPreTouch")
    numbers = random_table(useLocalEnv(1).btenv, "numbers", PLAIN, rows)
    threading.Thread(target=watch, daemon=True).start()
    counted = script_job(numbers, SCRIPT, "n BIGINT")
    (found,) = counted.collectToDataframe().n
    assert found == rows, found
    return peaks


def _measured(rows: int) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, "--one", str(rows)], check=True, stdout=subprocess.PIPE, text=True)
    peaks: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return peaks


def main() -> None:
    """Measure and report."""
    given = arguments(rounds=1)
    pairs = [(_measured(LARGE), _measured(SMALL)) for _ in range(given.rounds)]
    figures = [
        Figure(kind, "MB", [large[kind] for large, _ in pairs], [small[kind] for _, small in pairs], f"{SMALL:,} rows", 1.15)
        for kind in ("driver", "jvm", "tensorflow")
    ]
    report("memory", f"Peak memory with {LARGE:,} rows", figures, given.folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(run(int(sys.argv[2]))))
    else:
        main()
