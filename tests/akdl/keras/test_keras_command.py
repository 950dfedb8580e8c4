"""`akdl keras`: arguments, what it prints, exit codes; and the RankNet example."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from akdl.runner_commands import keras as main
from akdl.user_code.module import load_module
from tests.akdl.keras.support import SCRIPTS, load, mlp_config, without_val
from tests.support.deadline import DEADLINE_S
from tests.support.tf_group import ROOT

MODULE = ["--module", str(SCRIPTS / "mlp.py")]
WARNINGS = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def write(path: Path, config: Any) -> str:
    path.write_text(json.dumps(config))
    return str(path)


# Found out without TensorFlow's help, so they don't need it.
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "epochs"], "--set epochs: expected key=value"),
        (["--module", "missing.py"], "to be a Python file, got"),
    ],
)
def test_wrong_arguments_are_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    module = tmp_path / "user.py"
    module.write_text("")
    assert main(["train", write(tmp_path / "c.json", {}), "--module", str(module), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_help_lists_flags_and_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    printed = capsys.readouterr().out
    assert all(
        flag in printed
        for flag in ("--module", "--data-path", "--set", "CONFIG", "{train,evaluate,predict}")
    )


def test_syntax_error_in_the_module_names_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "user.py"
    module.write_text("x = 1\ndef broken(:\n")
    assert main(["train", write(tmp_path / "c.json", {}), "--module", str(module)]) == 2
    assert f"train: {module}, line 2: " in capsys.readouterr().err


def test_missing_config_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", str(tmp_path / "c.json"), *MODULE]) == 2
    assert "c.json" in capsys.readouterr().err


def test_unknown_task_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["test", "c.json", *MODULE])
    assert left.value.code == 2
    assert "train" in capsys.readouterr().err


@pytest.mark.tf
@WARNINGS
def test_all_mistakes_of_a_config_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {**mlp_config(tmp_path), "loss": 3, "save_path": "${OUT_PATH}$/model"}
    config["train_data_args"] = {"file": "f", "skip_head": True, "feat_num": 129}
    assert (
        main(["train", write(tmp_path / "c.json", config), *MODULE, "--data-path", str(tmp_path)])
        == 2
    )
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "train: the train config has 4 mistakes:"
    assert [line.split(":")[0] for line in lines[1:]] == [
        "- save_path",
        "- loss",
        "- train_data_args",
        "- train_data_args",
    ]


@pytest.mark.tf
@WARNINGS
def test_train_and_predict_run_as_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = mlp_config(tmp_path, save_path="${OUT_PATH}$/model")
    arguments = [*MODULE, "--data-path", str(tmp_path), "--set", f"OUT_PATH={tmp_path}"]
    assert main(["train", write(tmp_path / "c.json", config), *arguments, "--set", "epochs=1"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert (
        printed[0].startswith("epoch 1/1  loss ")
        and "val_auc" in printed[0]
        and "steps/s" in printed[0]
    )
    assert printed[1:] == [f"saved to {tmp_path / 'model'}", "1 epochs, 5 steps"]
    config = {
        "model": {"name": "m", "path": "${OUT_PATH}$/model"},
        "predict_data_args": config["train_data_args"],
        "batch_size": 20,
        "output": {"path": "${OUT_PATH}$/p.csv"},
    }
    assert main(["predict", write(tmp_path / "p.json", config), *arguments]) == 0
    assert capsys.readouterr().out == f"50 rows written to {tmp_path / 'p.csv'}\n"
    assert (
        main(
            [
                "train",
                write(tmp_path / "c.json", mlp_config(tmp_path, save_path=str(tmp_path))),
                *arguments,
            ]
        )
        == 2
    )
    assert "is not an empty folder" in capsys.readouterr().err


@pytest.mark.tf
@WARNINGS
def test_interrupted_command_exits_with_130(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "user.py").write_text(
        "from mlp import *\ndef awf_create_train_dataset_fn(file, skip_head, dim):\n    raise KeyboardInterrupt\n"
    )
    arguments = ["--module", str(tmp_path / "user.py"), "--data-path", str(tmp_path)]
    load_module(MODULE[1])  # so that it can be imported
    assert main(["train", write(tmp_path / "c.json", mlp_config(tmp_path)), *arguments]) == 130
    assert capsys.readouterr().err == "train: interrupted\n"


@pytest.mark.tf
@WARNINGS
def test_failure_during_training_exits_with_1_and_its_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = mlp_config(
        tmp_path,
        rows=12,
        callbacks=[{"name": "early_stopping", "args": {"monitor": "val_f1"}}],
    )
    assert (
        main(["train", write(tmp_path / "c.json", config), *MODULE, "--data-path", str(tmp_path)])
        == 1
    )
    assert capsys.readouterr().err.endswith(
        "callbacks: monitor: expected one of loss, auc, val_loss, val_auc, got 'val_f1'\n"
    )


SPOILS = """
import os

calls = []


def awf_model_to_save_fn(model):
    calls.append(model)
    if len(calls) == 2:
        os.makedirs(os.environ["SPOILED"] + "/other")
    return model
"""


@pytest.mark.tf
@WARNINGS
def test_a_model_that_cannot_be_saved_in_the_end_fails_and_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder was free before the training, and is not any more when it ends."""
    module, path = tmp_path / "spoils.py", tmp_path / "model"
    script = (
        (SCRIPTS / "mlp.py").read_text().replace("def awf_create_val_dataset_fn", "def _unused")
    )
    module.write_text(script + SPOILS)
    monkeypatch.setenv("SPOILED", str(path))
    small = without_val(mlp_config(tmp_path, save_path=str(path), epochs=1, metrics=[]))
    config = write(tmp_path / "c.json", small)
    assert main(["train", config, "--module", str(module), "--data-path", str(tmp_path)]) == 1
    assert f"the model is trained, but could not be saved to {path}: " in capsys.readouterr().err
    assert (tmp_path / "model.kept").is_dir()


@pytest.mark.long
@pytest.mark.tf
@WARNINGS
def test_ranknet_example_trains_and_saves_only_the_ranker(tmp_path: Path) -> None:
    """The documentation's example as a command: pairs with weights, two validation sets, only the
    ranker saved.
    """
    command = [sys.executable, str(ROOT / "examples" / "keras_ranknet" / "run.py"), str(tmp_path)]
    import os

    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=5 * DEADLINE_S
    )
    assert done.returncode == 0, done.stderr[-3000:]
    # slow machines print steps before
    first = next(line for line in done.stdout.splitlines() if line.endswith("steps/s)"))
    assert all(
        f" {name} " in first for name in ("val_loss(0)", "val_auc(0)", "val_loss(1)", "val_auc(1)")
    )
    (row,) = json.loads((tmp_path / "result.json").read_text())
    assert row["model"] == "ranker"
    assert row["binary_accuracy"] > 0.95
    assert row["auc"] > 0.98
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["train", "validation"]


@pytest.mark.long
@pytest.mark.tf
@WARNINGS
def test_saved_ranker_of_ranknet_is_the_trained_one(tmp_path: Path) -> None:
    import numpy as np

    from akdl.keras.keras_training import train

    example = ROOT / "examples" / "keras_ranknet"
    load_module(str(example / "run.py")).make_data(tmp_path, documents=60, pairs=200)
    config = json.loads((example / "train.json").read_text())
    config.update(epochs=1, callbacks=[])
    result = train(config, load_module(str(example / "ranknet.py")), {"DATA_PATH": str(tmp_path)})
    loaded = load(tmp_path / "ranker")
    assert type(result.model).__name__ == "RankNetModel"
    x = np.random.default_rng(0).normal(size=(9, 6)).astype(np.float32)
    np.testing.assert_array_equal(loaded(x), result.model.ranker(x))
