"""Jobs that are interrupted, each in another phase, for a notebook and for a terminal:
`interrupted_jobs.py PHASE`.

Each job touches the file `begun` when it has come to its phase.
"""

import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

from pyflink.table.udf import udf

from operators import (
    BatchOperator,
    StreamOperator,
    TensorFlow2BatchOp,
    TensorFlow2StreamOp,
    TF2TableModelTrainBatchOp,
    useLocalEnv,
)
from tests.support.leftovers import DEADLINE_S

SCRIPT = """
import pathlib, time

def main(config):
    if config.user_params["first_row"]:
        next(iter(config.tf_context.batches(1)))
    pathlib.Path(config.user_params["begun"]).touch()
    while config.user_params["writes"]:
        config.output_writer.write_batch({"x": list(range(1000))})
    time.sleep(600)
"""
EXPORT = """
import pathlib, threading, time
import tensorflow as tf

def main(config):
    def tell():
        while not config.reports.is_exporting:
            time.sleep(0.01)
        pathlib.Path(config.user_params["begun"]).touch()
    threading.Thread(target=tell, daemon=True).start()
    module = tf.Module()
    module.same = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    tf.saved_model.save(module, config.saved_model_dir, signatures={"serving_default": module.same})
"""
BEGUN = os.path.abspath("begun")


def _begin(number: int) -> int:
    pathlib.Path(BEGUN).touch()
    return number


def _ids(table_env: Any, rows: int, per_second: int = 1_000_000) -> Any:
    name = f"ids_{rows}_{per_second}"
    table_env.execute_sql(
        f"CREATE TEMPORARY TABLE IF NOT EXISTS {name} (id BIGINT) WITH ('connector' = 'datagen', "
        f"'rows-per-second' = '{per_second}', 'number-of-rows' = '{rows}', "
        f"'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '{rows - 1}')"
    )
    return table_env.from_path(name)


def _with_script(
    rows: int, per_second: int = 1_000_000, first_row: bool = False, writes: bool = False
) -> Any:
    pathlib.Path("waits.py").write_text(SCRIPT)
    op = TensorFlow2BatchOp(
        userFiles=["waits.py"], mainScriptFile="waits.py", outputSchemaStr="x INT", numWorkers=1, numPSs=0,
        userParams={"begun": BEGUN, "first_row": first_row, "writes": writes},
    )  # fmt: skip
    return BatchOperator.fromTable(_ids(ENVIRONMENTS.btenv, rows, per_second)).link(op)


def starting() -> None:
    job = _with_script(10)
    _begin(0)
    job.collectToDataframe()


def feeding() -> None:
    _with_script(1_000_000, 100, first_row=True).collectToDataframe()


def training() -> None:
    _with_script(10).collectToDataframe()


def collecting() -> None:
    _with_script(10, writes=True).collectToDataframe()


def exporting() -> None:
    """The script has returned, and a clean process loads what it has saved."""
    pathlib.Path("exports.py").write_text(EXPORT)
    op = TF2TableModelTrainBatchOp(
        userFiles=["exports.py"],
        mainScriptFile="exports.py",
        numWorkers=1,
        numPSs=0,
        userParams={"begun": BEGUN},
    )
    BatchOperator.fromTable(_ids(ENVIRONMENTS.btenv, 10)).link(op).collectToDataframe()


def without_script() -> None:
    ENVIRONMENTS.btenv.drop_temporary_function("begin_")
    ENVIRONMENTS.btenv.create_temporary_function("begin_", udf(_begin, result_type="BIGINT"))
    BatchOperator.fromTable(_ids(ENVIRONMENTS.btenv, 1_000_000, 100)).select(
        "begin_(id) AS id"
    ).collectToDataframe()


def streaming() -> None:
    pathlib.Path("copies.py").write_text(
        "import pathlib\n\ndef main(config):\n    for batch in config.tf_context.batches(1):\n"
        '        pathlib.Path(config.user_params["begun"]).touch()\n'
    )
    op = TensorFlow2StreamOp(
        userFiles=["copies.py"], mainScriptFile="copies.py", outputSchemaStr="x INT", numWorkers=1, numPSs=0,
        userParams={"begun": BEGUN},
    )  # fmt: skip
    StreamOperator.fromTable(_ids(ENVIRONMENTS.stenv, 1_000_000, 100)).link(op).print()
    StreamOperator.execute()


PHASES: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (starting, feeding, training, exporting, collecting, without_script, streaming)
}
ENVIRONMENTS: Any = None


def run(phase: str) -> None:
    """Run the job that is to be interrupted in a phase."""
    pathlib.Path(BEGUN).unlink(missing_ok=True)
    PHASES[phase]()


def left() -> list[str]:
    """Run a job as any other, and return the threads and folders of jobs that stay: a thread ends
    shortly after its job.
    """
    frame = (
        BatchOperator.fromTable(_ids(ENVIRONMENTS.btenv, 10))
        .select("SUM(id) AS total")
        .collectToDataframe()
    )
    assert frame.total.tolist() == [45]
    end = time.monotonic() + DEADLINE_S
    while (found := _threads_and_folders()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def _threads_and_folders() -> list[str]:
    from pyflink.java_gateway import get_gateway

    from bridge.host.program_folder import program_folder

    threads = [
        str(thread.getName()) for thread in get_gateway().jvm.Thread.getAllStackTraces().keySet()
    ]
    folders = [name for name in os.listdir(program_folder()) if name.startswith("collected_")]
    return [name for name in threads if "datagen" in name or "ids_" in name] + folders


def prepare() -> None:
    """Make the environments."""
    global ENVIRONMENTS
    ENVIRONMENTS = useLocalEnv(1)


if __name__ == "__main__":
    prepare()
    run(sys.argv[1])
