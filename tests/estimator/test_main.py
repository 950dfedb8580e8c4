"""`python -m akdl.estimator`: arguments, what it prints, exit codes; alone and in a group, on the digits of the example."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl.estimator.__main__ import main
from akdl.user_code.module import load_module
from tests.estimator.support import EXAMPLES, run_group, signature

MNIST = EXAMPLES / "estimator_mnist"
FILES = ["--module", str(MNIST / "mnist.py"), "--params", str(MNIST / "parameters.json")]
WARNINGS = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning")
pytestmark = pytest.mark.tf


def digits(folder: Path, **size: int) -> str:
    path = str(folder / "digits.npz")
    load_module(str(MNIST / "digits.py")).write(path, **size)
    return path


class TestArguments:
    def run(self, tmp_path: Path, text: str, *more: str, params: str = "{}") -> int:
        (tmp_path / "user.py").write_text(text)
        (tmp_path / "p.json").write_text(params)
        files = ["--module", str(tmp_path / "user.py"), "--params", str(tmp_path / "p.json")]
        return main(["train", *files, "--path", "data", "--model-dir", str(tmp_path / "out"), *more])

    def test_functions_are_missing(self, tmp_path: Path, capsys: Any) -> None:
        assert self.run(tmp_path, "def model_fn(features, labels, mode, params): pass\n") == 2
        error = capsys.readouterr().err
        assert error.startswith(
            "train: user.py does not hold the four functions of an Estimator:\n- train_input_fn is missing\n"
        )

    @pytest.mark.parametrize(
        ("params", "more", "message"),
        [
            ('{"eval_steps": 0}', [], "train: the Estimator config has a mistake:\n- eval_steps: expected"),
            ("{", [], "the p.json config has a mistake:\n- line 1"),
            ('{"save_checkpoints_secs": 5}', ["--set", "save_checkpoints_steps=7"], "exclude each other, got 7 and 5"),
            ("{}", ["--set", "eval_steps"], "--set eval_steps: expected key=value"),
            ("{}", ["--module", "missing.py"], "to be a Python file, got"),
        ],
    )
    def test_wrong(self, tmp_path: Path, capsys: Any, params: str, more: list[str], message: str) -> None:
        assert self.run(tmp_path, "", *more, params=params) == 2
        assert message in capsys.readouterr().err

    def test_help_and_missing_arguments(self, capsys: Any) -> None:
        for arguments, code in ((["--help"], 0), (["train"], 2)):
            with pytest.raises(SystemExit) as left:
                main(arguments)
            assert left.value.code == code
        out, err = capsys.readouterr()
        assert "--model-dir DIR" in out and "--module" in err

    def test_a_failure_on_the_way_keeps_its_traceback(self, tmp_path: Path) -> None:
        failing = "".join(
            f"def {name}({arguments}): raise KeyError('oh')\n"
            for name, arguments in (
                ("model_fn", "features, labels, mode, params"),
                ("train_input_fn", "path, params"),
                ("eval_input_fn", "path, params"),
                ("serving_input_receiver_fn", ""),
            )
        )
        with pytest.raises(KeyError, match="oh"):
            self.run(tmp_path, failing)


@WARNINGS
def test_digits_alone(tmp_path: Path, capsys: Any) -> None:
    """Two heads; a second run goes on; both heads predict what `predict` does."""
    import tensorflow as tf

    command = ["train", *FILES, "--path", digits(tmp_path, train=1500, test=300), "--model-dir", str(tmp_path / "out")]
    assert main([*command, "--set", "train_max_steps=150"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"step 1  loss 2\.\d+$", lines[0]) and re.match(r"step 100  loss \S+  \S+ steps/s$", lines[1])
    assert lines[-1] == "150 steps"
    found = re.match(r"evaluation at step 150  accuracy (\S+)  loss (\S+)$", lines[-3])
    assert found is not None and float(found.group(1)) > 0.97 and float(found.group(2)) < 0.2

    assert main([*command, "--set", "train_max_steps=170", "--export-dir", str(tmp_path / "export")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("step 151  loss 0.") and lines[-1] == "170 steps"
    (exported,) = (tmp_path / "export").iterdir()

    module = load_module(str(MNIST / "mnist.py"))
    images, _ = load_module(str(MNIST / "digits.py")).make(5, seed=9)
    images = (images / 255.0).astype(np.float32)
    estimator = tf.estimator.Estimator(
        module.model_fn, str(tmp_path / "out"), params=json.loads((MNIST / "parameters.json").read_text())
    )
    predicted = list(estimator.predict(lambda: tf.data.Dataset.from_tensor_slices({"images": images}).batch(5)))
    default = signature(str(exported))(images=tf.constant(images))
    assert set(default) == {"class_id", "probabilities", "logits"}
    for key, values in default.items():
        np.testing.assert_array_equal(values, [one[key] for one in predicted])
    scores = signature(str(exported), "predict_images")(images=tf.constant(images))["scores"]
    np.testing.assert_array_equal(scores, default["probabilities"])


def test_digits_in_a_group(tmp_path: Path) -> None:
    """Two workers, a parameter server and an evaluator; the chief evaluates at the end and exports."""
    command = ["-m", "akdl.estimator", "train", *FILES, "--path", digits(tmp_path, train=1500, test=300)]
    command += ["--model-dir", str(tmp_path / "out"), "--set", "train_max_steps=200"]
    logs = run_group(tmp_path, command, [("chief", 0), ("worker", 0), ("ps", 0), ("evaluator", 0)])
    assert "exported to" in logs["chief-0"] and all("exported to" not in logs[name] for name in logs if name != "chief-0")
    found = re.search(r"evaluation at step (\d+)  accuracy (\S+)  loss (\S+)", logs["chief-0"])
    assert found is not None, logs["chief-0"]
    assert int(found.group(1)) >= 200, "asynchronous workers may make a step more than asked for"
    assert float(found.group(2)) > 0.97 and float(found.group(3)) < 0.2
    for name in ("chief-0", "worker-0"):
        assert re.search(r"step \d+  loss", logs[name]), name
    from akdl.engine.early_stopping import read_eval_metrics

    assert max(read_eval_metrics(str(tmp_path / "out" / "eval"))) == int(found.group(1)), "the evaluator writes there as well"
