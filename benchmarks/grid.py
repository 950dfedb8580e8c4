"""Rates of the feed and of prediction with different settings of Flink and sizes of chunks.

    python benchmarks/grid.py [feed] [predict] [--rounds N] [--folder FOLDER] [--scale SHARE]
        [--bundles N,...] [--chunks BYTES,...] [--segments BYTES,...] [--bundle-ms N,...]

Every combination of the values is a cell; an empty list leaves a setting at its default. In each
round each cell runs once, and so does the job with all defaults, which is the limit of this round.
A run before all others warms up the JVM, and each round begins with another cell, so that no cell
is always the first. The start-up, the median over the rounds of the job with all defaults, is
subtracted. The table begins with the fastest cell.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import predict
from feed import PLAIN
from jobs import FLOOR_S, RandomRows, Taken, timed
from processes import all_processes
from report import Figure, parser, report

CHUNKS = "CHUNK_BYTES of bridge.settings"
# Settings of Flink by command-line option.
SETTINGS = {
    "bundles": "python.fn-execution.bundle.size",  # elements; an element is a chunk
    "chunks": CHUNKS,
    # Flink 2 fixes the number of buffers: 8 floating ones per gate and 2 to 10 per channel. Only
    # their size can be set.
    "segments": "taskmanager.memory.segment-size",
    "bundle_ms": "python.fn-execution.bundle.time",
}
# 12 cells and the job with all defaults take about 4 minutes a round, for each kind of job.
DEFAULTS = {
    "bundles": "16,80000",
    "chunks": "262144,1048576,4194304",
    "segments": "32768,262144",
    "bundle_ms": "",
}
SMALL, LARGE = 300_000, 12_000_000
KINDS = ["feed", "predict"]
AS_IS = "as is"

Run = Callable[[int], float]
Config = Mapping[str, str]


def feed_of(config: Config) -> Run:
    """Return a function that feeds a number of rows into `dataset_file`, in STREAMING mode."""
    from operators import useLocalEnv

    return RandomRows(useLocalEnv(1, _of_flink(config)).stenv, "plain", PLAIN).counted_by(
        "read_file.py"
    )


def predict_of(config: Config, model: str) -> Run:
    """Return a function that predicts a number of rows with two subtasks."""
    from operators import useLocalEnv

    table_env = useLocalEnv(2, _of_flink(config)).btenv
    return predict.predicted(table_env, predict.random_rows(table_env), model)


def in_chunks(run: Run, config: Config) -> Run:
    """Return a job with the chunk size of a cell."""
    from bridge import settings

    size = int(config.get(CHUNKS, settings.CHUNK_BYTES))

    def sized(rows: int) -> float:
        settings.CHUNK_BYTES = size
        return run(rows)

    return sized


def _of_flink(config: Config) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != CHUNKS}


def cells(given: argparse.Namespace) -> dict[str, Config]:
    """Return the settings of each cell by its name; the cell with all defaults is the first."""
    values = {
        option: [text for text in getattr(given, option).split(",") if text] for option in SETTINGS
    }
    chosen = [option for option in SETTINGS if values[option]]
    found: dict[str, Config] = {AS_IS: {}}
    for each in itertools.product(*(values[option] for option in chosen)):
        name = ", ".join(f"{option} {int(value):,}" for option, value in zip(chosen, each))
        found[name] = {SETTINGS[option]: value for option, value in zip(chosen, each)}
    return found


def measured(runs: Mapping[str, Run], rounds: int, scale: float) -> list[Figure]:
    """Run the cells in turn and return a line for each, the fastest first."""
    small, large = max(1, int(SMALL * scale)), max(2, int(LARGE * scale))
    starts: list[float] = []
    taken: dict[str, list[Taken]] = {name: [] for name in runs}
    runs[AS_IS](large)
    names = list(runs)
    for number in range(rounds):
        starts.append(runs[AS_IS](small))
        first = number * len(names) // rounds
        for name in names[first:] + names[:first]:
            taken[name].append(timed(runs[name], large))
        print(f"round {number + 1} of {rounds} is done", flush=True)
    start_s = statistics.median(starts)
    net = {name: [each.seconds - start_s for each in all_] for name, all_ in taken.items()}
    rates = {name: [(large - small) / seconds for seconds in all_] for name, all_ in net.items()}
    figures = []
    for name in runs:
        used = statistics.median(all_processes(each.processors) for each in taken[name])
        too_short = scale < 1 or min(net[name] + net[AS_IS]) < FLOOR_S
        label = f"{name}; {used:.1f} processor s"
        figures.append(Figure(label, "rows/s", rates[name], rates[AS_IS], AS_IS, None, too_short))
    return sorted(figures, key=lambda figure: -figure.ratio)


def main() -> None:
    """Measure and report."""
    known = parser(rounds=3)
    known.add_argument("kinds", nargs="*", choices=KINDS)
    known.add_argument("--scale", type=float, default=1.0, help="of all sizes")
    for option, key in SETTINGS.items():
        known.add_argument(
            f"--{option.replace('_', '-')}", default=DEFAULTS[option], help=f"values of {key}"
        )
    given = known.parse_args()
    kinds = given.kinds or KINDS
    configs = cells(given)
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model")
        if "predict" in kinds:
            predict.export_model(model)
        makers: dict[str, Callable[[Config], Any]] = {
            "feed": feed_of,
            "predict": lambda config: predict_of(config, model),
        }
        for kind in kinds:
            runs = {
                name: in_chunks(makers[kind](config), config) for name, config in configs.items()
            }
            figures = measured(runs, given.rounds, given.scale)
            report(f"grid_{kind}", f"{kind}: {len(runs)} cells", figures, given.folder)


if __name__ == "__main__":
    main()
