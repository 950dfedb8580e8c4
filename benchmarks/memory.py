"""Peak memory of every process while rows pass through TensorFlow2BatchOp: `python benchmarks/memory.py [ROWS ...]`.

Each size runs in a driver of its own. Prints one line per size: peak resident memory in MB of the driver (Flink's Python
functions live in it), of the JVM, and of the TensorFlow process, as the kernel counts them (VmHWM). Linux only.
"""

import os
import pathlib
import subprocess
import sys
import threading
import time

SCRIPT = pathlib.Path(__file__).with_name("count_rows.py")


def run(rows: int) -> None:
    """Run one job in this process and print its line."""
    import psutil

    from operators import BatchOperator, TensorFlow2BatchOp, getMLEnv, useLocalEnv

    peaks: dict[str, float] = {}

    def watch() -> None:
        while True:
            for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
                try:
                    command = " ".join(process.cmdline())
                    peak = _peak_mb(process.pid)
                except (psutil.Error, OSError, StopIteration):
                    continue  # it has just ended
                kind = "tensorflow" if "akdl.entry" in command else "jvm" if "java" in command.split(" ")[0] else "driver"
                if kind != "driver" or process.pid == psutil.Process().pid:
                    peaks[kind] = max(peaks.get(kind, 0), peak)
            time.sleep(0.1)

    os.environ.setdefault("JVM_ARGS", "-Xmx1g")  # else the heap grows to a quarter of the machine before it is cleaned
    useLocalEnv(1)
    table_env = getMLEnv().btenv
    floats = ", ".join(f"f{i} FLOAT" for i in range(10))
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE numbers ({floats}, id BIGINT) WITH ('connector' = 'datagen', "
        f"'rows-per-second' = '1000000000', 'number-of-rows' = '{rows}')"
    )
    threading.Thread(target=watch, daemon=True).start()
    begun = time.monotonic()
    counted = BatchOperator.fromTable(table_env.from_path("numbers")).link(
        TensorFlow2BatchOp(
            userFiles=[str(SCRIPT)], mainScriptFile=str(SCRIPT), outputSchemaStr="n BIGINT", numWorkers=1, numPSs=0
        )
    )
    (found,) = counted.collectToDataframe().n
    assert found == rows, found
    sizes = ", ".join(f"{kind} {peak:,.0f}" for kind, peak in sorted(peaks.items()))
    print(f"{rows:>10,} rows in {time.monotonic() - begun:.1f} s: peak MB: {sizes}")


def _peak_mb(pid: int) -> float:
    with open(f"/proc/{pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run(int(sys.argv[2]))
    else:
        for size in sys.argv[1:] or ["300000", "3000000"]:
            subprocess.run([sys.executable, __file__, "--one", size], check=True)
