"""Learning from a stream: what a state in Flink's checkpoints costs, and how soon a row is in a
prediction.

    python benchmarks/learning.py [--rounds N] [--folder FOLDER]

The rate is that of a script that trains a model of 10 MB, with a checkpoint each second and a save
every 5 s. The limit is the same script without either. Both count from the first batch.

The delay of a row ends when a predictor of another job uses a model that has learnt the row, at
2,000 rows/s, with a model published every 5 s. It begins at the row's event time.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import pathlib
import statistics
import tempfile
import time
from typing import Any

from jobs import SCRIPTS, RandomRows
from report import Figure, arguments, report

ROWS = 8_000_000
RATE_TARGET, DELAY_S = 0.9, 8.0
PER_SECOND = 2000
MODELS = 8  # that take over while the delay is measured; the first two are left out


def learner(table: Any, script: str, output: str, **params: Any) -> Any:
    """Return the operator that trains on a stream."""
    from operators import StreamOperator, TensorFlow2StreamOp

    path = str(SCRIPTS / script)
    op = TensorFlow2StreamOp(
        userFiles=[path],
        mainScriptFile=path,
        outputSchemaStr=output,
        numWorkers=1,
        numPSs=0,
        saveEvery=5,
        **params,
    )
    return StreamOperator.fromTable(table).link(op)


def rate(keeps: bool, rows: int) -> float:
    """Return the rows that the script learns each second."""
    from operators import resetEnv, useLocalEnv

    with tempfile.TemporaryDirectory() as folder:
        kept = {
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": pathlib.Path(folder).as_uri(),
        }
        stream = useLocalEnv(1, config=kept if keeps else {}).stenv
        options = {"fields.id.min": "0", "fields.id.max": "39999"}
        table = RandomRows(stream, "learnt", {"id": "BIGINT", "y": "FLOAT"}, options).table(rows)
        op = learner(table, "learns.py", "n BIGINT, seconds DOUBLE", userParams={"keeps": keeps})
        ((found, seconds),) = op.getOutputTable().execute().collect()
        resetEnv()
    if found != rows:
        raise SystemExit(f"the script learnt {found} rows of {rows}")
    return rows / float(seconds)


def delays() -> list[float]:
    """Return the seconds from the last row that a model has learnt to the first prediction with it,
    for several models.
    """
    from operators import StreamOperator, TFSavedModelPredictStreamOp, resetEnv, useLocalEnv

    with tempfile.TemporaryDirectory() as folder:
        places = {name: os.path.join(folder, name) for name in ("models", "checkpoints")}
        kept = {
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": pathlib.Path(places["checkpoints"]).as_uri(),
        }
        stream = useLocalEnv(1, config=kept).stenv
        for name, per_second in (("examples", PER_SECOND), ("asked", 100)):
            stream.execute_sql(
                f"CREATE TEMPORARY TABLE {name} (x FLOAT, y AS 3 * x - 2, ts AS CURRENT_TIMESTAMP,"
                " WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'fields.x.min' = '0',"
                f" 'fields.x.max' = '1', 'rows-per-second' = '{per_second}')"
            )
        examples = stream.from_path("examples")
        published = {"publishDir": places["models"], "publishEvery": 5}
        learner(examples, "learns_line.py", "loss FLOAT", **published).print(1, title="learner")
        learning = StreamOperator.executeAsync()
        try:
            while not (os.path.isdir(places["models"]) and _names(places["models"])):
                learning.wait(0.1)
            predictor = TFSavedModelPredictStreamOp(
                modelPath=os.path.join(places["models"], min(_names(places["models"]))),
                modelCol="model",
                modelStreamFilePath=places["models"],
                modelStreamScanInterval=1,
                selectedCols=["x"],
                reservedCols=["y"],
                outputSchemaStr="p FLOAT",
            )
            StreamOperator.fromTable(stream.from_path("asked")).link(predictor)
            seen, found = set(), []
            with contextlib.closing(predictor.getOutputTable().execute().collect()) as rows:
                for row in rows:
                    if row[-1] not in seen and "until=" in row[-1]:
                        seen.add(row[-1])
                        until = datetime.datetime.fromisoformat(row[-1].partition("until=")[2])
                        found.append(
                            time.time() - until.replace(tzinfo=datetime.timezone.utc).timestamp()
                        )
                    if len(seen) == MODELS:
                        return found[2:]
        finally:
            learning.cancel()
            resetEnv()
    return []


def _names(folder: str) -> list[str]:
    return [name for name in os.listdir(folder) if not name.startswith(".")]


def main() -> None:
    """Measure and report."""
    given = arguments(rounds=3)
    values: list[float] = []
    limits: list[float] = []
    rate(True, ROWS // 100)  # the first job takes longer
    for _ in range(given.rounds):
        limits.append(rate(False, ROWS))
        values.append(rate(True, ROWS))
    waited = delays()
    # A row is learnt up to 5 s before a model is published, so half of that is added: the rows of a
    # model are 2.5 s older on average than its last one.
    print(
        "last row of a model to the first prediction with it:"
        f" {', '.join(f'{each:.1f}' for each in waited)} s"
    )
    figures = [
        Figure(
            "a state of 10 MB in checkpoints",
            "rows/s",
            values,
            limits,
            "without state and checkpoints",
            RATE_TARGET,
        ),
        Figure(
            "a row until a prediction",
            "s",
            [statistics.median(waited) + 2.5],
            [DELAY_S],
            "asked for",
            1.0,
        ),
    ]
    report("learning", "Learning from a stream", figures, given.folder)


if __name__ == "__main__":
    main()
