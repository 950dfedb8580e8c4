"""Predictions of saved models, in files, as arrays and in groups."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.akdl.keras.saved_models import ARGS, save_models
from tests.akdl.keras.support import SCRIPTS, run_cli, save, script, user_module, write_csv

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def predict_config(folder: Path, **more: Any) -> dict[str, Any]:
    write_csv(folder / "test.csv", 21, header=False)
    (model,) = save_models(folder, "good")
    return {"model": model, "predict_data_args": ARGS, "batch_size": 8, **more}


def expected_predictions(folder: Path) -> list[float]:
    table = np.loadtxt(folder / "test.csv")
    return (1 / (1 + np.exp(-table[:, 1] - table[:, 2]))).tolist()


def run_predict(config: dict[str, Any], folder: Path) -> Any:
    from akdl.keras.predict import predict

    return predict(config, script("mlp"), {"DATA_PATH": str(folder)})


@pytest.mark.parametrize("kind", ["npz", "csv", "tfrecord"])
def test_predict_writes_each_kind_of_file(tmp_path: Path, kind: str) -> None:
    import tensorflow as tf

    path = str(tmp_path / "out" / f"p.{kind}")
    result = run_predict(predict_config(tmp_path, keep=["line"], output={"path": path}), tmp_path)
    assert result == (21, path)
    if kind == "npz":
        with np.load(path) as content:
            columns = {name: content[name].tolist() for name in content.files}
    elif kind == "csv":
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        columns = {
            "line": [row["line"] for row in rows],
            "prediction": [float(row["prediction"]) for row in rows],
        }
    else:
        examples = [
            tf.train.Example.FromString(one.numpy()).features.feature
            for one in tf.data.TFRecordDataset(path)
        ]
        columns = {
            "line": [one["line"].bytes_list.value[0].decode() for one in examples],
            "prediction": [one["prediction"].float_list.value[0] for one in examples],
        }
    assert columns["line"] == (tmp_path / "test.csv").read_text().splitlines()
    assert columns["prediction"] == pytest.approx(expected_predictions(tmp_path), abs=1e-6)


@pytest.mark.fault("data", "Bytes in TFRecord files of predictions keep the zeros at their ends")
def test_tfrecords_keep_zeros_at_the_ends_of_bytes(tmp_path: Path) -> None:
    import tensorflow as tf

    from akdl.keras.predict import _write_tfrecord

    path, cells = str(tmp_path / "p"), [b"ab\0\0", b"\0"]
    columns = {"one": np.array(cells, object), "two": np.array([cells, cells], object)}
    _write_tfrecord(path, iter([columns]))
    (first, _) = (
        tf.train.Example.FromString(one.numpy()).features.feature
        for one in tf.data.TFRecordDataset(path)
    )
    assert list(first["one"].bytes_list.value) == cells[:1]
    assert list(first["two"].bytes_list.value) == cells


def test_predict_gives_rows_of_several_models_with_several_outputs(tmp_path: Path) -> None:
    import tensorflow as tf

    from akdl.keras.predict import predict_batches

    inputs = tf.keras.Input((2,), name="x")
    outputs = {
        "twice": tf.keras.layers.Rescaling(2.0)(inputs),
        "less": tf.keras.layers.Rescaling(1.0, -1.0)(inputs),
    }
    save(tf.keras.Model(inputs, outputs), tmp_path / "m")
    models = [{"name": name, "path": str(tmp_path / "m")} for name in ("a", "b")]
    data = tf.data.Dataset.from_tensor_slices([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    module = user_module(awf_create_predict_dataset_fn=lambda batch_size: data.batch(batch_size))
    batches = list(predict_batches({"models": models, "batch_size": 2}, module))
    assert [{name: value.tolist() for name, value in batch.items()} for batch in batches[1:]] == [
        {
            f"{name}_{head}": value
            for name in "ab"
            for head, value in (("less", [[4, 5]]), ("twice", [[10, 12]]))
        }
    ]


@pytest.mark.slow
def test_predict_a_group_writes_shares(tmp_path: Path) -> None:
    config = predict_config(tmp_path, keep=["line"], output={"path": str(tmp_path / "p.csv")})
    (tmp_path / "c.json").write_text(json.dumps(config))
    run_cli(
        tmp_path / "run",
        2,
        ["predict", "../c.json", "--module", str(SCRIPTS / "mlp.py"), "--data-path", str(tmp_path)],
    )
    lines = []
    for share in (0, 1):
        with open(tmp_path / f"p-0000{share}-of-00002.csv", newline="") as file:
            lines += [row["line"] for row in csv.DictReader(file)]
    assert sorted(lines) == sorted((tmp_path / "test.csv").read_text().splitlines())


@pytest.mark.slow
def test_a_group_predicts_fewer_rows_than_it_has_workers(tmp_path: Path) -> None:
    config = predict_config(tmp_path, keep=["line"], output={"path": str(tmp_path / "p.csv")})
    write_csv(tmp_path / "test.csv", 1, header=False)
    (tmp_path / "c.json").write_text(json.dumps(config))
    module, data = ["--module", str(SCRIPTS / "mlp.py")], ["--data-path", str(tmp_path)]
    run_cli(tmp_path / "run", 2, ["predict", "../c.json", *module, *data])
    found = [len(file.read_text().splitlines()) for file in tmp_path.glob("p-*-of-00002.csv")]
    assert max(found) == 2, "the names of the columns and the row"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "output: missing"),
        (
            {"output": {"path": "p.xls"}},
            "output.path: unknown extension 'xls': set output.format to one of npz, csv, tfrecord",
        ),
        (
            {"output": {"path": "p.csv"}, "keep": ["id"]},
            "keep: expected some of the features input, line, got id",
        ),
    ],
)
def test_predict_refuses_a_wrong_config_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        run_predict(predict_config(tmp_path, **more), tmp_path)
    assert not list(tmp_path.glob("p.*")), "nothing unfinished is left"
