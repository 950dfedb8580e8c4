"""Tables of Arrow into Flink, and tables of Flink as Arrow, compared with the JVM's own source and
sink.

    python benchmarks/arrow.py [--rounds N] [--folder FOLDER] [--scale SHARE] [--only WORDS]

Processor seconds of all processes per million rows of 10 FLOAT and 1 BIGINT, in a local environment
of parallelism 1. Start-up is subtracted, as everywhere. Generating the rows is a part of what
collecting costs; the first line shows how much.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from feed import PLAIN, profile
from jobs import Job, RandomRows, job_arguments, measure, sink
from report import Figure, report

SMALL, LARGE, LARGE_FRAME = 300_000, 10_000_000, 3_000_000
ASKED_S = 0.8  # per million rows
JVM, COLLECTED, OVER_PY4J = (
    "source to sink in the JVM",
    "collectToArrow",
    "collectToArrow, through py4j",
)


def jobs() -> dict[str, Job]:
    """Return all jobs; jobs that are compared stand next to each other."""
    import pandas as pd
    import pyarrow as pa

    from operators import BatchOperator, useLocalEnv

    table_env = useLocalEnv(1).btenv
    random = RandomRows(table_env, "plain", PLAIN)
    nothing = sink(
        table_env, "nothing", ", ".join(f"{name} {kind}" for name, kind in PLAIN.items())
    )
    draw = np.random.default_rng(0)
    columns: dict[str, Any] = {
        name: draw.random(LARGE_FRAME, "f4") for name in PLAIN if name != "id"
    }
    arrow = pa.table({**columns, "id": np.arange(LARGE_FRAME)})
    frame = pd.DataFrame({**columns, "id": np.arange(LARGE_FRAME)})

    def collecting(method: str) -> Callable[[int], float]:
        return _timed(lambda rows: getattr(BatchOperator.fromTable(random.table(rows)), method)())

    return {
        JVM: Job(random.jvm, SMALL, LARGE),
        COLLECTED: Job(collecting("collectToArrow"), SMALL, LARGE),
        OVER_PY4J: Job(_like_a_cluster(collecting("collectToArrow")), SMALL, LARGE_FRAME),
        "collectToDataframe": Job(collecting("collectToDataframe"), SMALL, LARGE_FRAME),
        "fromArrow": Job(
            _timed(lambda rows: BatchOperator.fromArrow(arrow.slice(0, rows)).insertInto(nothing)),
            SMALL,
            LARGE_FRAME,
        ),
        "fromDataframe": Job(
            _timed(lambda rows: BatchOperator.fromDataframe(frame[:rows]).insertInto(nothing)),
            SMALL,
            LARGE_FRAME,
        ),
    }


def _timed(run: Callable[[int], Any]) -> Callable[[int], float]:
    def timed(rows: int) -> float:
        begun = time.monotonic()
        run(rows)
        return time.monotonic() - begun

    return timed


def _like_a_cluster(run: Callable[[int], float]) -> Callable[[int], float]:
    def patched(rows: int) -> float:
        with patch("operators.flink.joint_job.runs_elsewhere", lambda table_env: True):
            return run(rows)

    return patched


def main() -> None:
    """Measure and report."""
    given = job_arguments()
    nets = measure(
        {name: job for name, job in jobs().items() if given.only in name}, given.rounds, given.scale
    )
    figures = []
    for name, net in nets.items():
        seconds, unit = net.processors_per_million, "s per million rows"
        if name not in (JVM, OVER_PY4J):
            figures.append(
                Figure(
                    name, unit, seconds, [ASKED_S] * len(seconds), "asked for", 1.0, net.too_short
                )
            )
        for limit, target in ((JVM, None), (OVER_PY4J, 0.3)):
            if name == COLLECTED and limit in nets:
                figures.append(
                    Figure(
                        name,
                        unit,
                        seconds,
                        nets[limit].processors_per_million,
                        limit,
                        target,
                        net.too_short,
                    )
                )
    report("arrow", "Tables of Arrow into Flink and out of it", figures, given.folder)
    print(f"\nProcessor seconds per million rows (in the kernel)\n{profile(nets)}")


if __name__ == "__main__":
    main()
