"""Evaluation of saved models, alone and in groups."""

from __future__ import annotations

import atexit
import csv
import functools
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.akdl.keras.saved_models import ARGS, save_models
from tests.akdl.keras.support import SCRIPTS, load, run_cli, script, write_csv

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@functools.cache
def place() -> Path:
    """A folder for models that tests only read."""
    folder = tempfile.mkdtemp(prefix="models-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@functools.cache
def saved_models() -> list[dict[str, str]]:
    return save_models(place(), "good", "worse")


def evaluate_config(folder: Path, **more: Any) -> dict[str, Any]:
    write_csv(folder / "test.csv", 101, header=False)
    return {
        "models": saved_models(),
        "test_data_args": ARGS,
        "batch_size": 16,
        "metrics": ["AUC", "BinaryAccuracy"],
        **more,
    }


def run_evaluate(config: dict[str, Any], module: Any, folder: Path) -> Any:
    from akdl.keras.evaluate import evaluate

    return evaluate(config, module, {"DATA_PATH": str(folder)})


def expected_evaluation(folder: Path) -> list[dict[str, float]]:
    """What Keras says for the first model on all rows at once."""
    import tensorflow as tf

    table = np.loadtxt(folder / "test.csv")
    model = load(place() / "good")
    found = []
    for threshold in (0, 2):
        auc, accuracy = tf.keras.metrics.AUC(), tf.keras.metrics.BinaryAccuracy()
        for metric in (auc, accuracy):
            metric.update_state(table[:, :1] > threshold, model(table[:, 1:].astype(np.float32)))
        found.append({"auc": float(auc.result()), "binary_accuracy": float(accuracy.result())})
    return found


def test_evaluate_numbers_the_datasets_of_a_tuple_and_writes_the_results(tmp_path: Path) -> None:
    output = {"json": str(tmp_path / "out" / "r.json"), "csv": str(tmp_path / "out" / "r.csv")}
    rows = run_evaluate(evaluate_config(tmp_path, output=output), script("mlp"), tmp_path)
    assert list(rows[0]) == [
        "model",
        "auc(0)",
        "auc(1)",
        "binary_accuracy(0)",
        "binary_accuracy(1)",
    ]
    assert [row["model"] for row in rows] == ["good", "worse"]
    assert rows[0]["auc(0)"] > 0.95 > rows[1]["auc(0)"]
    for number, expected in enumerate(expected_evaluation(tmp_path)):
        for name, value in expected.items():
            assert rows[0][f"{name}({number})"] == pytest.approx(value, abs=1e-6)
    assert json.loads(Path(output["json"]).read_text()) == rows
    with open(output["csv"], newline="") as file:
        table = list(csv.DictReader(file))
    assert [
        {key: float(value) if key != "model" else value for key, value in row.items()}
        for row in table
    ] == rows


def test_evaluate_names_the_datasets_of_a_dict_and_not_a_single_one(tmp_path: Path) -> None:
    config, module = evaluate_config(tmp_path, metrics=["AUC"]), script("mlp")
    config["models"] = config["models"][:1]
    first, second = run_evaluate(config, module, tmp_path)[0]["auc(0)"], None
    make = module.awf_create_test_dataset_fn
    module.awf_create_test_dataset_fn = lambda file, skip_head, dim: dict(
        zip(["all", "best"], make(file, skip_head, dim))
    )
    second = run_evaluate(config, module, tmp_path)[0]
    assert list(second)[1:3] == ["auc(all)", "auc(best)"]
    module.awf_create_test_dataset_fn = lambda file, skip_head, dim: make(file, skip_head, dim)[0]
    third = run_evaluate(config, module, tmp_path)[0]
    assert list(third) == ["model", "auc"]
    assert first == second["auc(all)"] == third["auc"]


def test_evaluate_loads_models_with_the_function_of_the_user(tmp_path: Path) -> None:
    config, module = evaluate_config(tmp_path), script("mlp")
    seen = []

    def load_by_name(path: str, name: str) -> Any:
        seen.append((path, name))
        return load(path)

    module.awf_load_model_fn = load_by_name
    run_evaluate(config, module, tmp_path)
    assert seen == [(one["path"], one["name"]) for one in config["models"]]


def test_evaluate_refuses_a_dataset_without_rows(tmp_path: Path) -> None:
    config, module = evaluate_config(tmp_path), script("mlp")
    (tmp_path / "test.csv").write_text("")
    with pytest.raises(
        ValueError, match="awf_create_test_dataset_fn in mlp.py, dataset 0: there are no rows"
    ):
        run_evaluate(config, module, tmp_path)


def test_evaluate_refuses_a_path_without_a_model(tmp_path: Path) -> None:
    config = evaluate_config(tmp_path, models=[{"name": "m", "path": str(tmp_path / "nothing")}])
    with pytest.raises(
        ValueError, match="expected a SavedModel in .*nothing, which is not a folder"
    ):
        run_evaluate(config, script("mlp"), tmp_path)


@pytest.mark.slow
def test_evaluate_in_a_group_gives_the_same_metrics(tmp_path: Path) -> None:
    config = evaluate_config(tmp_path, output={"json": str(tmp_path / "group.json")})
    (tmp_path / "c.json").write_text(json.dumps(config))
    arguments = [
        "evaluate",
        "../c.json",
        "--module",
        str(SCRIPTS / "mlp.py"),
        "--data-path",
        str(tmp_path),
    ]
    outputs = run_cli(tmp_path / "run", 2, arguments)
    rows = run_evaluate(config, script("mlp"), tmp_path)
    group = json.loads((tmp_path / "group.json").read_text())
    for one, other in zip(group, rows):
        assert one == pytest.approx(other, abs=1e-6)
    assert "model  " in outputs[0]


@pytest.mark.long
def test_a_group_evaluates_fewer_rows_than_it_has_workers(tmp_path: Path) -> None:
    config = evaluate_config(tmp_path, output={"json": str(tmp_path / "group.json")})
    write_csv(tmp_path / "test.csv", 1, header=False)
    (tmp_path / "c.json").write_text(json.dumps(config))
    module, data = ["--module", str(SCRIPTS / "mlp.py")], ["--data-path", str(tmp_path)]
    run_cli(tmp_path / "run", 2, ["evaluate", "../c.json", *module, *data])
    group = json.loads((tmp_path / "group.json").read_text())
    for one, other in zip(group, run_evaluate(config, script("mlp"), tmp_path)):
        assert one == pytest.approx(other, abs=1e-6)


def test_as_table_aligns_the_columns() -> None:
    from akdl.keras.evaluate import as_table

    rows = [{"model": "a", "auc": 0.5}, {"model": "longer", "auc": 0.123456789}]
    assert as_table(rows).splitlines() == [
        "model        auc",
        "a            0.5",
        "longer  0.123457",
    ]
