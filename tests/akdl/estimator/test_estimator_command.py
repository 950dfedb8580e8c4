"""`akdl estimator`: arguments, what it prints, exit codes; alone and in a group, on the digits of
the example.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl.runner_commands import estimator as main
from akdl.user_code.module import load_module
from tests.akdl.estimator.support import ENVIRONMENT, EXAMPLES, SCRIPTS, run_group, signature
from tests.support.deadline import DEADLINE_S
from tests.support.tensorflows import TF_1

MNIST = EXAMPLES / "estimator_mnist"
FILES = ["--module", str(MNIST / "mnist.py"), "--params", str(MNIST / "parameters.json")]
WARNINGS = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning"
)
pytestmark = [pytest.mark.tf, pytest.mark.estimator]


def digits(folder: Path, **size: int) -> str:
    path = str(folder / "digits.npz")
    load_module(str(MNIST / "digits.py")).write(path, **size)
    return path


def run_main(tmp_path: Path, text: str, *more: str, params: str = "{}") -> int:
    (tmp_path / "user.py").write_text(text)
    (tmp_path / "p.json").write_text(params)
    files = ["--module", str(tmp_path / "user.py"), "--params", str(tmp_path / "p.json")]
    return main(["train", *files, "--path", "data", "--model-dir", str(tmp_path / "out"), *more])


def test_module_without_its_functions_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(tmp_path, "def model_fn(features, labels, mode, params): pass\n") == 2
    error = capsys.readouterr().err
    assert error.startswith(
        "train: user.py does not define the four functions of an Estimator:\n- train_input_fn is missing\n"
    )


@pytest.mark.parametrize(
    ("params", "more", "message"),
    [
        (
            '{"eval_steps": 0}',
            [],
            "train: the Estimator config has a mistake:\n- eval_steps: expected",
        ),
        ("{", [], "the p.json config has a mistake:\n- line 1"),
        (
            '{"save_checkpoints_secs": 5}',
            ["--set", "save_checkpoints_steps=7"],
            "expected one of the two, got 7 and 5",
        ),
        ("{}", ["--set", "eval_steps"], "--set eval_steps: expected key=value"),
        ("{}", ["--module", "missing.py"], "to be a Python file, got"),
    ],
)
def test_wrong_arguments_are_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], params: str, more: list[str], message: str
) -> None:
    assert run_main(tmp_path, "", *more, params=params) == 2
    assert message in capsys.readouterr().err


def test_help_exits_with_0_and_missing_arguments_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, code in ((["--help"], 0), (["train"], 2)):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert left.value.code == code
    out, err = capsys.readouterr()
    assert "--model-dir DIR" in out and "--module" in err


def test_parameters_next_to_the_module_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "user.py").touch()
    (tmp_path / "parameters.json").write_text('{"eval_steps": 0}')
    command = [
        "train",
        "--module",
        str(tmp_path / "user.py"),
        "--path",
        "data",
        "--model-dir",
        str(tmp_path / "out"),
    ]
    assert main(command) == 2
    assert "eval_steps: expected" in capsys.readouterr().err
    (tmp_path / "other.json").write_text('{"train_max_step": 5}')
    assert main([*command, "--params", str(tmp_path / "other.json"), "--set", "eval_steps=0"]) == 2
    error = capsys.readouterr().err
    assert (
        "train_max_step: unknown parameter; did you mean train_max_steps?" in error
        and "eval_steps: expected" in error
    )


def test_syntax_error_in_the_module_names_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(tmp_path, "x = 1\ndef model_fn(:\n") == 2
    assert capsys.readouterr().err.startswith(
        f"train: {tmp_path / 'user.py'}, line 2: invalid syntax"
    )


def test_function_that_fails_before_training_keeps_its_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = "".join(
        f"def {name}({arguments}): raise KeyError('oh')\n"
        for name, arguments in (
            ("model_fn", "features, labels, mode, params"),
            ("train_input_fn", "path, params"),
            ("eval_input_fn", "path, params"),
            ("serving_input_receiver_fn", ""),
        )
    )
    assert run_main(tmp_path, failing) == 2
    error = capsys.readouterr().err
    assert 'user.py", line 4, in serving_input_receiver_fn' in error
    assert error.endswith("train: serving_input_receiver_fn in user.py failed: KeyError: 'oh'\n")


def commands(folder: Path) -> list[list[str]]:
    """Return a command for each of MISTAKES."""
    found = []
    for number, (params, _, _) in enumerate(MISTAKES):
        (folder / f"{number}.json").write_text(json.dumps({"train_max_steps": 5, **params}))
        options = {
            "module": SCRIPTS / "linear.py",
            "path": "data",
            "params": folder / f"{number}.json",
        }
        options.update(
            {
                "model-dir": folder / f"out-{number}",
                "export-dir": folder / params.get("export", f"export-{number}"),
            }
        )
        found.append(
            [
                "train",
                *(text for name, value in options.items() for text in (f"--{name}", str(value))),
            ]
        )
    return found


# Parameters of `linear.py`, exit code, what the error says.
MISTAKES: list[tuple[dict[str, Any], int, str]] = [
    ({}, 0, ""),
    ({"keras": True}, 0, ""),
    ({"fault": "regresses too"}, 0, ""),
    ({"fault": "classifies tensors, and predicts"}, 0, ""),
    (
        {"rate": 1e30, "train_max_steps": 10},
        1,
        r"train: the loss became NaN, so nothing was exported\. The last checkpoint is \S+ckpt",
    ),
    (
        {"rate": float("inf"), "train_max_steps": 1},
        1,
        "train: the loss of the evaluation at step 1 is NaN, so nothing was exported",
    ),
    (
        {"rows": 0},
        1,
        "train: the training made no step, the global step is still 0: the input function of training gives no batch",
    ),
    (
        {"fault": "no global step"},
        2,
        "train: the train_op of model_fn in linear.py does not increment the global step",
    ),
    ({"eval_rows": 0}, 2, "train: eval_input_fn in linear.py gives no batch"),
    (
        {"fault": "predict returns nothing"},
        2,
        "train: model_fn in linear.py, mode infer: expected an EstimatorSpec, got nothing",
    ),
    (
        {"fault": "variable in predict"},
        2,
        "train: model_fn in linear.py makes variables in mode PREDICT that .*: scale. The export",
    ),
    (
        {"fault": "classifies tensors"},
        2,
        "its head 'serving_default' is a ClassificationOutput, which takes serialized Examples",
    ),
    ({"export": "0.json/export"}, 2, "the export dir: cannot write into .*0.json/export"),
]


def check_mistakes(found: list[tuple[int, str]], folder: Path) -> None:
    assert len(found) == len(MISTAKES)
    for number, ((code, error), (params, expected, message)) in enumerate(zip(found, MISTAKES)):
        assert code == expected and re.search(message, error), (params, code, error)
        exports = list(folder.glob(f"export-{number}/*"))
        assert len(exports) == (expected == 0), (params, exports)
        if expected == 0:
            assert set(signature(str(exports[0])).structured_outputs) == {"y"}
        if expected == 2:
            trained = [
                path
                for path in folder.glob(f"out-{number}/model.ckpt-*.index")
                if path.name != "model.ckpt-0.index"
            ]
            assert not trained, params


@WARNINGS
def test_mistakes_are_reported_before_the_first_step_and_export_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong is told before the first step, and nothing wrong is exported."""
    found = []
    for command in commands(tmp_path):
        code = main(command)
        found.append((code, capsys.readouterr().err))
    check_mistakes(found, tmp_path)


@pytest.mark.long
def test_mistakes_are_reported_with_tensorflow_1_too(tmp_path: Path) -> None:
    driver = [
        TF_1.python(),
        str(SCRIPTS / "run_commands.py"),
        json.dumps(commands(tmp_path)),
        str(tmp_path / "found.json"),
    ]
    done = subprocess.run(
        driver,
        env={**os.environ, **ENVIRONMENT},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=10 * DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    check_mistakes(json.loads((tmp_path / "found.json").read_text()), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("tensorflow", [pytest.param("1.15", marks=pytest.mark.long), "2.15"])
def test_worker_0_evaluates_and_exports_in_a_group_without_a_chief(
    tmp_path: Path, tensorflow: str
) -> None:
    """Worker 0 evaluates and exports; the steps of both count; what they learn is what one process
    learns in so many steps.
    """
    import tensorflow as tf

    python = TF_1.python() if tensorflow == "1.15" else None
    (tmp_path / "params.json").write_text(
        json.dumps({"train_max_steps": 100, "save_checkpoints_steps": 20})
    )
    command = [
        "-m",
        "akdl",
        "estimator",
        "train",
        "--module",
        str(SCRIPTS / "linear.py"),
        "--path",
        "data",
    ]
    command += ["--params", str(tmp_path / "params.json"), "--model-dir", str(tmp_path / "out")]
    logs = run_group(tmp_path, command, [("worker", 0), ("worker", 1)], python=python)
    assert "2 devices train in step: train_max_steps 100 is 50 steps of each" in logs["worker-0"]
    assert (
        "evaluation at step 50  " in logs["worker-0"]
        and "50 steps" in logs["worker-0"].splitlines()
    )
    assert "exported to" not in logs["worker-1"]
    (exported,) = (tmp_path / "out" / "export").iterdir()
    served = signature(str(exported))(x=tf.constant([-1.0, 0.5]))["y"].numpy()
    np.testing.assert_allclose(served, [-1, 2], atol=0.5)


def test_both_commands_list_all_flags(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["train", "--help"]):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert left.value.code == 0
        out = capsys.readouterr().out
        assert all(
            flag in out
            for flag in ("--module", "--path", "--params", "--model-dir", "--export-dir", "--set")
        )


@pytest.mark.long
@WARNINGS
def test_digits_example_trains_resumes_and_exports_two_heads_in_one_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two heads; a second run goes on; both heads predict what `predict` does."""
    import tensorflow as tf

    command = [
        "train",
        *FILES,
        "--path",
        digits(tmp_path, train=1500, test=300),
        "--model-dir",
        str(tmp_path / "out"),
    ]
    assert main([*command, "--set", "train_max_steps=150"]) == 0, capsys.readouterr().err
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"step 1  loss 2\.\d+$", lines[0]) and re.match(
        r"step 100  loss \S+  \S+ steps/s$", lines[1]
    )
    assert lines[-1] == "150 steps"
    found = re.match(r"evaluation at step 150  accuracy (\S+)  loss (\S+)$", lines[-3])
    assert found is not None and float(found.group(1)) > 0.97 and float(found.group(2)) < 0.2

    assert (
        main([*command, "--set", "train_max_steps=170", "--export-dir", str(tmp_path / "export")])
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("step 151  loss 0.") and lines[-1] == "170 steps"
    (exported,) = (tmp_path / "export").iterdir()

    module = load_module(str(MNIST / "mnist.py"))
    images, _ = load_module(str(MNIST / "digits.py")).make(5, seed=9)
    images = (images / 255.0).astype(np.float32)
    estimator = tf.estimator.Estimator(
        module.model_fn,
        str(tmp_path / "out"),
        params=json.loads((MNIST / "parameters.json").read_text()),
    )
    predicted = list(
        estimator.predict(lambda: tf.data.Dataset.from_tensor_slices({"images": images}).batch(5))
    )
    default = signature(str(exported))(images=tf.constant(images))
    assert set(default) == {"class_id", "probabilities", "logits"}
    for key, values in default.items():
        np.testing.assert_array_equal(values, [one[key] for one in predicted])
    scores = signature(str(exported), "predict_images")(images=tf.constant(images))["scores"]
    np.testing.assert_array_equal(scores, default["probabilities"])


@pytest.mark.slow
def test_digits_example_trains_and_exports_in_a_group(tmp_path: Path) -> None:
    """Two workers, a parameter server and an evaluator; the chief evaluates at the end and
    exports.
    """
    command = [
        "-m",
        "akdl",
        "estimator",
        "train",
        *FILES,
        "--path",
        digits(tmp_path, train=1500, test=300),
    ]
    command += ["--model-dir", str(tmp_path / "out"), "--set", "train_max_steps=200"]
    logs = run_group(tmp_path, command, [("chief", 0), ("worker", 0), ("ps", 0), ("evaluator", 0)])
    assert "exported to" in logs["chief-0"] and all(
        "exported to" not in logs[name] for name in logs if name != "chief-0"
    )
    found = re.search(r"evaluation at step (\d+)  accuracy (\S+)  loss (\S+)", logs["chief-0"])
    assert found is not None, logs["chief-0"]
    assert int(found.group(1)) >= 200, "asynchronous workers may make a step more than asked for"
    assert float(found.group(2)) > 0.97 and float(found.group(3)) < 0.2
    for name in ("chief-0", "worker-0"):
        assert re.search(r"step \d+  loss", logs[name]), name
    from akdl.engine.early_stopping import read_eval_metrics

    assert max(read_eval_metrics(str(tmp_path / "out" / "eval"))) == int(found.group(1)), (
        "the evaluator writes there as well"
    )
    events = {path.suffix for path in (tmp_path / "out" / "eval").glob("events.*")}
    assert ".evaluator" in events and len(events) == 2, (
        "a file of its own: those of one second would have one name"
    )
