"""A failure of a script is at most 15 lines on stderr, with that of the progress, on each path that
leads to one.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

from operators.errors.uncaught import LINES
from tests.e2e.jobs import SCRIPTS
from tests.support.environment import ENVIRONMENT
from tests.support.leftovers import DEADLINE_S
from tests.support.warm_python import warm_variables

pytestmark = [pytest.mark.flink, pytest.mark.estimator]

CALLED = 'Called from:\n  File "'
# On a slow machine the JobManager may learn of the failure by an event that it cannot send, and the
# reason is then lost.
TOO_SOON = "TaskNotRunningException: Task is not running, but in state FAILED. A task failed so soon after its start"


def shown(
    folder: pathlib.Path, scripts: dict[str, str], *paths: str, **variables: str
) -> dict[str, str]:
    """Run `failing_paths.py` with these environment variables too; return what stood on stderr for
    each path.
    """
    for name, text in scripts.items():
        (folder / name).write_text(text)
    command = [sys.executable, str(SCRIPTS / "failing_paths.py"), str(folder), *paths]
    # A slow machine shows more of the progress, and TensorFlow prints lines when it is imported
    # here.
    quiet = {**ENVIRONMENT, **variables, "AKDL_PROGRESS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}
    run = subprocess.run(
        command, env=quiet, capture_output=True, text=True, timeout=10 * DEADLINE_S
    )
    assert run.returncode == 1, run.stderr
    found = re.split(r"^===== (\w+)\n", run.stderr, flags=re.MULTILINE)
    assert found[0] == "" and found[1::2] == list(paths), run.stderr
    return dict(zip(found[1::2], found[2::2]))


def check(texts: dict[str, str], expected: dict[str, str]) -> None:
    for path, said in expected.items():
        text = texts[path]
        assert len(text.splitlines()) <= LINES, text
        first, _, rest = text.partition("\n")
        assert (
            said in first or (path == "user_function" and TOO_SOON in first)
        ) and CALLED in rest, text
        assert TOO_SOON in first or not re.search(
            r"org\.apache|site-packages|\.akdl|_beam", text
        ), text


@pytest.mark.slow
def test_scripts_fail_in_few_lines_on_each_path(tmp_path: pathlib.Path) -> None:
    scripts = {
        "deep.py": "def fails(n):\n    return {}['scor'] if n == 0 else fails(n - 1)\n\ndef main(config):\n    fails(20)\n",
        "six_megabytes.py": "def main(config):\n    raise ValueError('begin' + 'x' * 6_000_000 + 'end')\n",
        "killed.py": "import os\n\ndef main(config):\n    print('\\n' * 50 + 'at last', flush=True)\n    os.kill(os.getpid(), 9)\n",
    }
    translated = ["execute", "plain_pyflink", "statement_set", "insert_into"]
    paths = ["collect", "two_workers", "stream", "user_function", "pipeline", *translated]
    texts = shown(tmp_path, scripts, *paths, **warm_variables(tensorflow=False))
    failed = "chief 0 (deep.py): the script failed: KeyError: 'scor'"
    check(
        texts,
        {
            "collect": "TaskError: TensorFlow2BatchOp, chief 0 (six_megabytes.py): the script failed: ValueError: begin",
            "two_workers": "(killed.py): the process killed by signal 9 (SIGKILL",
            "stream": f"TaskError: TensorFlow2StreamOp, {failed}",
            "user_function": "JobError: Flink: a Python function of the job failed: ValueError: bad cell",
            "pipeline": f"TaskError: TF2TableModelTrainBatchOp, {failed}",
            **dict.fromkeys(translated, f"TaskError: TensorFlow2BatchOp, {failed}"),
        },
    )
    assert len(texts["collect"]) < 3_000 and "xend" in texts["collect"]
    assert "\n  at last\n" in texts["two_workers"]
    for path in (*translated, "stream", "pipeline"):
        assert texts[path].splitlines()[1:3] == [
            f'  File "{tmp_path / "deep.py"}", line 5, in main',
            "    fails(20)",
        ]


@pytest.mark.long
@pytest.mark.tf
def test_tensorflow_fails_in_few_lines_on_each_path(tmp_path: pathlib.Path) -> None:
    model = "tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,))])"
    scripts = {
        "keras_fit.py": f"import tensorflow as tf\n\ndef main(config):\n    model = {model}\n    model.compile('sgd', 'mse')\n    model.fit(tf.ones([4, 2]), tf.ones([4, 1]))\n",
        "awf.py": f"import tensorflow as tf\n\ndef awf_create_model_fn():\n    return {model}\n\n"
        f"def awf_create_train_dataset_fn(*args, **params):\n    raise KeyError('scor')\n",
        "estimator.py": "def model_fn(features, labels, mode, params):\n    raise KeyError('scor')\n\n"
        "def train_input_fn():\n    raise KeyError('scor')\n",
    }
    export(tmp_path / "model")
    paths = ["keras_fit", "keras_runner", "estimator_runner", "predictor", "local_predictor"]
    check(
        shown(tmp_path, scripts, *paths, **warm_variables()),
        {
            "keras_fit": 'the script failed: ValueError: Input 0 of layer "sequential" is incompatible with the layer: expected shape=(None, 3)',
            "keras_runner": "TF2TableModelTrainBatchOp, chief 0 (awf.py): the script failed: ",
            "estimator_runner": "TFTableModelTrainBatchOp, chief 0 (estimator.py): the script failed: ",
            "predictor": "RowError: TFSavedModelPredictBatchOp: ",
            "local_predictor": "akdl.serving.loaded_model.",
        },
    )


def export(folder: pathlib.Path) -> None:
    """Write a SavedModel that refuses each row, and a pipeline file with it."""
    import tensorflow as tf

    from operators import PipelineModel, TFSavedModelPredictor

    model = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def serve(x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.ensure_shape(x, [7])}

    tf.saved_model.save(model, str(folder), {"serving_default": serve})
    stage = TFSavedModelPredictor(
        modelPath=str(folder), outputSchemaStr="y FLOAT", selectedCols=["x"]
    )
    PipelineModel(stage).save(str(folder.with_name("pipeline.zip")))
