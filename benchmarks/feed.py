"""Rows from a Flink table into a script, compared with PyFlink's no-op pandas UDF on the same
columns and with the JVM alone.

    python benchmarks/feed.py [--rounds N] [--folder FOLDER] [--scale SHARE] [--only WORDS]

Rates exclude the start-up: they count the rows beyond the small size. All jobs of a round run one
after the other in one driver, so that a ratio compares jobs that ran next to each other.
Parallelism and number of workers are 1 unless the name says otherwise. The processor seconds of the
feed are printed by process.
"""

from __future__ import annotations

import statistics

from jobs import Comparison, Job, Net, RandomRows, compare, job_arguments
from processes import KINDS
from report import Figure, lined_up, report

# A no-op takes 1.0 to 1.4 million rows of numbers a second on two cores, and 0.2 to 0.4 million
# mixed ones.
SMALL, HALF, LARGE = 300_000, 4_150_000, 8_000_000
SMALL_MIXED, LARGE_MIXED = 100_000, 2_000_000
PROCESSOR_S = 2.0  # the target, per million rows

FLOATS = [f"f{number}" for number in range(10)]
PLAIN = {**dict.fromkeys(FLOATS, "FLOAT"), "id": "BIGINT"}
MIXED = {
    **dict.fromkeys([f"s{number}" for number in range(5)], "STRING"),
    **dict.fromkeys([f"d{number}" for number in range(3)], "DOUBLE"),
    **dict.fromkeys([f"a{number}" for number in range(2)], "ARRAY<FLOAT>"),
}
MIXED_OPTIONS = {
    **{f"fields.{name}.null-rate": "0.2" for name in MIXED},
    **{f"fields.{name}.length": "16" for name, kind in MIXED.items() if kind != "DOUBLE"},
}

NOOP, NOOP_BATCH, NOOP_MIXED = "no-op UDF", "no-op UDF, BATCH", "no-op UDF, mixed columns"
FILE, HALF_FILE = "dataset_file", "dataset_file, half the rows"
WORDS = "no-op pandas UDF"
LINES = [
    Comparison("JVM alone", "JVM alone", NOOP, WORDS, None),
    Comparison("dataset_file, STREAMING", FILE, NOOP, WORDS, 1.1),
    Comparison("dataset_file, scaling", FILE, HALF_FILE, "half the rows", 0.95),
    Comparison("batches, STREAMING", "batches", NOOP, WORDS, 1.2),
    Comparison("dataset_file, 2 workers", "dataset_file, 2 workers", NOOP, WORDS, 1.0),
    Comparison("dataset_file, BATCH", "dataset_file, BATCH", NOOP_BATCH, WORDS, 1.0),
    Comparison("mixed columns, STREAMING", "mixed columns", NOOP_MIXED, WORDS, 0.9),
]


def jobs() -> dict[str, Job]:
    """Return all jobs; jobs that are compared follow each other."""
    from operators import useLocalEnv

    environments = useLocalEnv(1)
    plain = RandomRows(environments.stenv, "plain", PLAIN)
    mixed = RandomRows(environments.stenv, "mixed", MIXED, MIXED_OPTIONS)
    in_batch = RandomRows(environments.btenv, "plain", PLAIN)
    file = plain.counted_by("read_file.py")
    return {
        "JVM alone": Job(plain.jvm, SMALL, LARGE),
        HALF_FILE: Job(file, SMALL, HALF),
        FILE: Job(file, SMALL, LARGE),
        NOOP: Job(plain.noop, SMALL, LARGE),
        "batches": Job(plain.counted_by("read_batches.py"), SMALL, LARGE),
        "dataset_file, 2 workers": Job(plain.counted_by("read_file.py", 2), SMALL, LARGE),
        NOOP_BATCH: Job(in_batch.noop, SMALL, LARGE),
        "dataset_file, BATCH": Job(in_batch.counted_by("read_file.py"), SMALL, LARGE),
        NOOP_MIXED: Job(mixed.noop, SMALL_MIXED, LARGE_MIXED),
        "mixed columns": Job(mixed.counted_by("read_file.py"), SMALL_MIXED, LARGE_MIXED),
    }


def processor_lines(nets: dict[str, Net]) -> list[Figure]:
    """Return the processor time of the feed, compared with its target and with the no-op."""
    if not {FILE, NOOP} <= set(nets):
        return []
    of_file, of_noop, too_short = (
        nets[FILE].processors_per_million,
        nets[NOOP].processors_per_million,
        nets[FILE].too_short,
    )
    asked = [PROCESSOR_S] * len(of_file)
    return [
        Figure(
            "processor time, dataset_file",
            "s per million rows",
            of_file,
            asked,
            "asked for",
            1.0,
            too_short,
        ),
        Figure(
            "processor time, dataset_file",
            "s per million rows",
            of_file,
            of_noop,
            WORDS,
            None,
            too_short,
        ),
    ]


def profile(nets: dict[str, Net]) -> str:
    """Return a table of processor seconds per million rows by kind of process, as medians of the
    rounds.
    """

    def per_million(net: Net, kind: str) -> str:
        seconds = statistics.median(used.get(kind, 0.0) for used in net.processors) * 1e6 / net.rows
        kernel = (
            statistics.median(used.get(f"{kind}, kernel", 0.0) for used in net.processors)
            * 1e6
            / net.rows
        )
        return f"{seconds:.2f} ({kernel:.2f})"

    rows = [[name, *(per_million(net, kind) for kind in KINDS)] for name, net in nets.items()]
    return lined_up([["", *KINDS], *rows])


def main() -> None:
    """Measure and report."""
    given = job_arguments()
    figures, nets = compare(jobs(), LINES, given)
    report(
        "feed", "Rows from a table into a script", [*figures, *processor_lines(nets)], given.folder
    )
    print(f"\nProcessor seconds per million rows (in the kernel)\n{profile(nets)}")


if __name__ == "__main__":
    main()
