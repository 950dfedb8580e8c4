"""Peak memory of every process with large rows and cells, compared with small ones.

    python benchmarks/large_rows.py [--only CASE] [--folder FOLDER]

Each case runs in a driver of its own, in BATCH mode with one worker, and so does the same job with
small rows. Memory is peak resident memory, as in memory.py. The heap of the JVM is fixed and
touched from the start, so that only memory outside the heap can grow. The bound is 4 times the
largest row and 200 MB. Linux only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass

from jobs import SCRIPTS, script_job
from memory import watched
from processes import KINDS
from report import Figure, parser, report

HEAP = "-Xms2g -Xmx2g -XX:+AlwaysPreTouch"
ROW_FACTOR, SPARE_MB = 4, 200


@dataclass(frozen=True)
class Case:
    """A job whose rows are large.

    Args:
        name: The large thing.
        script: The script to run, from `scripts/`.
        rows: Number of rows that the script reads.
        row_bytes: Bytes of each of these rows.
        output: Columns that the script writes.
        check: Query of the output, the table `written`, with one row as result.
        expected: The expected row.
        row_mb: Size of the largest row in transit.
        variables: User parameters of the script.
        own_mb: Memory of the script itself, which does not count.
    """

    name: str
    script: str
    rows: int
    row_bytes: int
    output: str
    check: str
    expected: tuple[int, ...]
    row_mb: float
    variables: list[str]
    own_mb: float = 0


def rows_case(name: str, rows: int, size: int) -> Case:
    """Return a job that sends rows of this size into a script and back."""
    check = "SELECT COUNT(*), SUM(CAST(CHAR_LENGTH(text) AS BIGINT)) FROM written"
    return Case(
        name,
        "write_back_rows.py",
        rows,
        size,
        "id BIGINT, text STRING",
        check,
        (rows, rows * size),
        size / 1e6,
        [],
    )


def output_case(name: str, amount: int, expected: int, kind: str, own_mb: float = 0) -> Case:
    """Return a job whose script makes a large output of one row."""
    variables = [f"BENCH_KIND={kind}", f"BENCH_AMOUNT={amount}"]
    return Case(
        name,
        "much_output.py",
        1,
        10,
        "x DOUBLE",
        "SELECT COUNT(x) FROM written",
        (expected,),
        0,
        variables,
        own_mb,
    )


CASES = [
    rows_case("500 rows of 300 KB", 500, 300_000),
    rows_case("2,500 rows of 300 KB", 2500, 300_000),
    rows_case("a cell of 100 MB", 1, 100_000_000),
    output_case("a batch of 20 M doubles", 20_000_000, 20_000_000, "doubles", own_mb=160),
    output_case("1.5 GB without a line end", 1_500_000_000, 1, "text"),
]
SMALL = {
    "write_back_rows.py": rows_case("small rows", 500, 10),
    "much_output.py": output_case("small output", 1, 1, "doubles"),
}


def run(case: Case) -> dict[str, float]:
    """Run one job in this process and return the peaks in MB, and its seconds."""
    from operators import useLocalEnv

    os.environ.setdefault("JVM_ARGS", HEAP)
    table_env = useLocalEnv(1).btenv
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE ids (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' ="
        f" 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{case.rows}', 'number-of-rows' ="
        f" '{case.rows}')"
    )
    # a constant would become part of the plan
    ten = "SUBSTRING(CONCAT('0123456789', CAST(id AS STRING)), 1, 10)"
    rows = table_env.sql_query(f"SELECT id, REPEAT({ten}, {case.row_bytes // 10}) AS text FROM ids")
    begun = time.monotonic()
    with watched() as peaks:
        job = script_job(rows, SCRIPTS / case.script, case.output, envVars=case.variables)
        table_env.create_temporary_view("written", job.getOutputTable())
        (found,) = table_env.sql_query(case.check).execute().collect()
    if tuple(found) != case.expected:
        raise SystemExit(f"{case.name}: expected {case.expected}, got {tuple(found)}")
    return {**peaks, "seconds": time.monotonic() - begun}


def measured(name: str) -> dict[str, float]:
    """Run one case in a process of its own, and return the result of `run`."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", name], check=True, stdout=subprocess.PIPE, text=True
    )
    peaks: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return peaks


def main() -> None:
    """Measure and report."""
    known = parser(rounds=1)
    known.add_argument("--only", default="", help="run only the cases with this in their name")
    given = known.parse_args()
    cases = [case for case in CASES if given.only in case.name]
    small = {
        script: measured(SMALL[script].name)
        for script in dict.fromkeys(case.script for case in cases)
    }
    figures = []
    for case in cases:
        found, base = measured(case.name), small[case.script]
        bound = ROW_FACTOR * case.row_mb + SPARE_MB
        for kind in KINDS:
            more = max(
                0.0, found[kind] - base[kind] - (case.own_mb if kind == "tensorflow" else 0.0)
            )
            words = f"{ROW_FACTOR} rows and {SPARE_MB} MB"
            figures.append(Figure(f"{case.name}, {kind}", "MB", [more], [bound], words, 1.0))
        print(
            f"{case.name}: {found['seconds']:.0f} s; {base} with small rows, {found} here",
            flush=True,
        )
    report("large_rows", "Peak memory beyond that of small rows", figures, given.folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        by_name = {case.name: case for case in [*CASES, *SMALL.values()]}
        print(json.dumps(run(by_name[sys.argv[2]])))
    else:
        main()
