"""Many jobs in a row in one program, each with a random fault: memory, threads, descriptors and
folders must stay as they are.

    python scripts/soak.py [--jobs 200] [--seed 0] [--ways raises exits] [--warm-up 40]

A job counts its rows in a script without TensorFlow. Its fault is one of: none, the script raises,
it leaves by sys.exit, its process is killed, or with it all that watches it, or the job is
cancelled; `--ways` names the faults to draw from. During and after the warm-up this program is
measured four times in as many jobs as the warm-up has. Exit code 1 when a job ended otherwise than
its fault says, or when something grew. Linux only.
"""

from __future__ import annotations

import argparse
import atexit
import collections
import gc
import glob
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import psutil

ROWS = 1000
DEADLINE_S = 120.0
SCRIPT = """
import os, pathlib, signal, sys, time

def main(config):
    way = config.user_params["way"]
    pathlib.Path(config.user_params["begun"]).touch()
    if way == "raises":
        raise ValueError("on purpose")
    if way == "exits":
        sys.exit(3)
    if way != "none":
        time.sleep(600)
    config.output_writer.write_batch({"n": [config.dataset_length]})
"""
EXPECTED = {
    "raises": "on purpose",
    "exits": "sys.exit",
    "killed": "killed by signal 9",
    "killed with its watcher": "signal 9",
}
WAYS = ["none", "none", *EXPECTED, "cancelled"]


class Seen(NamedTuple):
    """What this program uses; of the JVM all that is resident, and what is in use of its heap and
    for its classes.
    """

    driver_mb: float
    jvm_mb: float
    heap_mb: float
    classes_mb: float
    threads: int
    descriptors: int
    jvm_threads: int
    children: int
    folders: int


def seen(own_temp: str) -> Seen:
    """Look at this program."""
    from pyflink.java_gateway import get_gateway

    gc.collect()
    jvm_runs = get_gateway().jvm
    jvm_runs.java.lang.System.gc()  # what no one holds any more is no growth
    memory = jvm_runs.java.lang.management.ManagementFactory.getMemoryMXBean()
    heap, classes = memory.getHeapMemoryUsage().getUsed(), memory.getNonHeapMemoryUsage().getUsed()
    own = psutil.Process()
    jvm = next(child for child in own.children(recursive=True) if "java" in child.name())
    children = [
        child for child in own.children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE
    ]
    folders = glob.glob(os.path.join(own_temp, "akdl-*"))
    return Seen(
        own.memory_info().rss / 1e6,
        jvm.memory_info().rss / 1e6,
        heap / 1e6,
        classes / 1e6,
        threading.active_count(),
        own.num_fds(),
        jvm.num_threads(),
        len(children),
        len(folders),
    )


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """Wait for a condition and return what it returned."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise SystemExit(f"not within {DEADLINE_S:g} s: {what}")


def script_processes() -> list[psutil.Process]:
    """Return the processes of scripts."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            if "akdl.entry" in child.cmdline() and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
        except psutil.Error:
            continue
    return found


def run(table_env: Any, script: pathlib.Path, begun: pathlib.Path, way: str) -> None:
    """Run one job, and see that it ends as it should."""
    from operators import BatchOperator, TensorFlow2BatchOp

    begun.unlink(missing_ok=True)
    op: Any = TensorFlow2BatchOp(
        userFiles=[str(script)],
        mainScriptFile=str(script),
        outputSchemaStr="n BIGINT",
        numWorkers=1,
        numPSs=0,
        userParams={"way": way, "begun": str(begun)},
    )
    counted = op.linkFrom(BatchOperator.fromTable(table_env.from_path("ids")))
    if way == "cancelled":
        client = counted.getOutputTable().execute().get_job_client()
        wait_until(begun.exists, "the script runs")
        client.cancel().result()
    else:
        faults = threading.Thread(target=_kill, args=(begun, way), daemon=True)
        faults.start()
        text = ""
        try:
            frame = counted.collectToDataframe()
            if way != "none" or list(frame.n) != [ROWS]:
                raise SystemExit(f"{way}: the job ended with {frame.n.tolist()}")
        except Exception as error:
            text = str(error)
        if (way != "none" and EXPECTED[way] not in text) or (way == "none" and text):
            raise SystemExit(
                f"{way}: expected {EXPECTED.get(way, 'no error')!r}, got {text[:2000]}"
            )
        faults.join()
    wait_until(lambda: not script_processes(), f"{way}: no process is left")


def _kill(begun: pathlib.Path, way: str) -> None:
    if not way.startswith("killed"):
        return
    wait_until(begun.exists, "the script runs")
    victims = script_processes()
    if way == "killed with its watcher":
        victims += [
            child
            for child in psutil.Process().children(recursive=True)
            if "exec rm -rf" in " ".join(_command(child))
        ]
    for victim in victims:
        victim.send_signal(signal.SIGKILL)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def grown(before: Seen, after: Seen) -> list[str]:
    """Say what grew from one moment to another."""
    slack = Seen(40, 80, 20, 20, 4, 4, 6, 1, 0)
    return [
        f"{name}: {first:g}, then {last:g}"
        for name, first, last, more in zip(Seen._fields, before, after, slack)
        if last > first * (1.1 if name.endswith("_mb") else 1.0) + more
    ]


def main() -> int:
    """Run the jobs and return the exit code."""
    known = argparse.ArgumentParser()
    known.add_argument("--jobs", type=int, default=200)
    known.add_argument("--seed", type=int, default=0)
    known.add_argument("--ways", nargs="+", choices=sorted(set(WAYS)), default=WAYS)
    # After these jobs nothing may grow: the JVM has compiled, pools are full.
    known.add_argument("--warm-up", type=int, default=40)
    given = known.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="soak-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # the first is run last
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    script, begun = folder / "count.py", folder / "begun"
    script.write_text(SCRIPT)
    # What Java keeps only as long as there is room, among it the classes of ended jobs, would grow
    # until there is none.
    os.environ.setdefault("JVM_ARGS", "-Xmx1g -XX:SoftRefLRUPolicyMSPerMB=0")
    rng, looks, done = random.Random(given.seed), [], collections.Counter()
    from operators import useLocalEnv

    table_env = useLocalEnv(1).btenv
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE ids (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' ="
        f" '1000000', 'number-of-rows' = '{ROWS}')"
    )
    started, every = time.monotonic(), max(given.warm_up // 4, 1)
    for number in range(1, given.jobs + 1):
        way = rng.choice(given.ways)
        run(table_env, script, begun, way)
        done[way] += 1
        if number % every == 0:
            looks.append(seen(str(folder)))
            print(f"{number} jobs, {time.monotonic() - started:.0f} s: {looks[-1]}", flush=True)
    print(f"{dict(done)}")
    if given.jobs < 2 * given.warm_up:
        return 0
    before, wrong = looks[given.warm_up // every - 1], ["not measured"]
    deadline = time.monotonic() + DEADLINE_S
    while wrong and time.monotonic() < deadline:  # threads of Beam end a moment after their job
        wrong = grown(before, seen(str(folder)))
        time.sleep(0.1)
    print("nothing grew" if not wrong else "\n".join(["grew:", *wrong]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
