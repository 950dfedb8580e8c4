"""Predictions of models for the features of `awf_create_predict_dataset_fn`.

They are arrays for an operator, and files for the command line.
"""

from __future__ import annotations

import csv
import functools
import json
import logging
import os
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple

import numpy as np
import tensorflow as tf

from akdl.keras.saving import load_model, require_models, wrong_file
from akdl.keras.task_configs import PREDICT, prepare
from akdl.storage.local_files import WholeFile
from akdl.training.data import DatasetSource, Part, without_rows
from akdl.training.loop import replicas_function
from akdl.training.model_call import call_on_sample, evaluated
from akdl.training.objects import Heads
from akdl.training.user_functions import UserModule
from akdl.training.workers import Group
from akdl.user_code.config_file import Config, ConfigError, read_config
from akdl.wire.cells import as_array

logger = logging.getLogger(__name__)

Columns = Dict[str, Any]


class PredictResult(NamedTuple):
    """Result of a prediction on this worker: the number of rows, and the path of its file."""

    rows: int
    path: str


def predict(
    config: str | Config,
    module: Any,
    placeholders: Mapping[str, str] | None = None,
    report: Callable[[str], None] | None = None,
) -> PredictResult:
    """Write the predictions to a file.

    In a group every worker calls this and writes its share to a file with its number:
    `out-00000-of-00003.csv`.

    Args:
        config: A predict config with `output`, or the path of its JSON file.
        module: The user's module with the callbacks.
        placeholders: Values of `${NAME}$` in the config; other values come from the environment.
        report: Receives a line at the end; None logs it.

    Returns:
        The number of rows of this worker, and the path of its file.

    Raises:
        akdl.user_code.config_file.ConfigError: The config is wrong; lists all mistakes.
        ValueError: A model and the dataset do not fit together.
    """
    read = read_config(config) if isinstance(config, str) else config
    if "output" not in read:
        raise ConfigError(PREDICT, ["output: missing; set it, or call predict_batches for arrays"])
    user = UserModule(module)
    checked = prepare(PREDICT, read, placeholders, user)
    output = checked["output"]
    ending = os.path.splitext(output["path"])[1].lstrip(".").lower()
    kind = output.get("format") or {"tfrecords": "tfrecord"}.get(ending, ending)
    if kind not in _WRITERS:
        raise ConfigError(
            PREDICT,
            [
                f"output.path: unknown extension {ending!r}: set output.format to one of"
                f" {', '.join(_WRITERS)}"
            ],
        )
    group = Group()
    path = output["path"]
    if group.ranks > 1:
        stem, suffix = os.path.splitext(path)
        # Each worker writes a file of its own, so that no predicted row has to travel to another
        # worker.
        path = f"{stem}-{group.rank:05d}-of-{group.ranks:05d}{suffix}"
    # Each worker writes on its own host, so each of them tests its own file.
    mistakes = wrong_file("output.path", path)
    if mistakes:
        raise ConfigError(PREDICT, mistakes)
    rows = 0

    def counted() -> Iterator[Columns]:
        """Pass the batches on and count their rows."""
        nonlocal rows
        for columns in _predict(checked, user, group, False):
            rows += len(next(iter(columns.values())))
            yield columns

    # The file has its name only once all rows are in it.
    with WholeFile(path) as file:
        _WRITERS[kind](file.name, counted())
    (report or logger.info)(f"{rows} rows written to {path}")
    return PredictResult(rows, path)


def predict_batches(
    config: Config,
    module: Any,
    placeholders: Mapping[str, str] | None = None,
    worker_datasets: bool = False,
) -> Iterator[Columns]:
    """Yield the predictions of this worker batch by batch: column name to array, one entry per row.

    A model with one output has the column `prediction`, a model with several outputs a column per
    output; with several models the names start with the model's name. Features in `keep` of the
    config come first.

    Args:
        config: A predict config; `output` is not read.
        module: The user's module with the callbacks.
        placeholders: Values of `${NAME}$` in the config; other values come from the environment.
        worker_datasets: The dataset of each worker has its own rows.

    Raises:
        akdl.user_code.config_file.ConfigError: The config is wrong; lists all mistakes.
        ValueError: A model and the dataset do not fit together.
    """
    user = UserModule(module)
    checked = prepare(PREDICT, config, placeholders, user)
    return _predict(checked, user, Group(), worker_datasets)


def _predict(config: Config, user: UserModule, group: Group, own: bool) -> Iterator[Columns]:
    """Yield the predictions of this worker; all workers have to iterate to the end.

    The models share one pass over the dataset, so that their columns belong to the same rows.
    """
    source = DatasetSource(
        user, "awf_create_predict_dataset_fn", config, group, own=own, labelled=False
    )
    named = config.get("models") or [config["model"]]
    require_models(user, named)
    with group.strategy.scope():
        models = [load_model(user, one["path"], one["name"]) for one in named]
    functions = [replicas_function(group, functools.partial(evaluated, model)) for model in models]
    for step, parts in enumerate(source.filled_steps(source.dataset())):
        if step == 0:
            # A row is tried on each model in a plain call, whose error names the user's line.
            row = without_rows(parts[0])
            for one, model in zip(named, models):
                call_on_sample(
                    group, model, _read_by(model, row), f"model {one['name']} on {source.where()}"
                )
        outputs = [
            function([_read_by(model, part) for part in parts])
            for model, function in zip(models, functions)
        ]
        for number, part in enumerate(parts):
            if not part.rows:
                continue
            # The batch has all features, also the ones that no model reads, such as an id.
            columns = _kept(part.features, config.get("keep", []))
            for one, model, of_model in zip(named, models, outputs):
                columns.update(
                    _columns(model, of_model[number], one["name"] if len(named) > 1 else "")
                )
            yield columns


def _read_by(model: Any, part: Part) -> Part:
    """Drop the features that are not inputs of the model: they are for the output only."""
    names = getattr(model, "input_names", None)
    if not isinstance(part.features, Mapping) or not names or not set(names) <= set(part.features):
        return part
    return part._replace(features={name: part.features[name] for name in names})


def _kept(features: Any, names: list[str]) -> Columns:
    """Return the features that the output repeats, such as an id."""
    if names and not isinstance(features, Mapping):
        raise ValueError(
            "keep: expected a dict of features, to keep them by name, got"
            f" {type(features).__name__}"
        )
    missing = [name for name in names if name not in features]
    if missing:
        raise ValueError(
            f"keep: expected some of the features {', '.join(features)}, got {', '.join(missing)}"
        )
    return {name: _array(features[name]) for name in names}


def _columns(model: Any, outputs: Any, model_name: str) -> Columns:
    """Return the outputs of one model as columns, with the model's name if there are several."""
    heads = Heads(model, outputs)
    columns = {}
    for head, output in zip(heads.names, heads.split("outputs", outputs)):
        name = "_".join(filter(None, [model_name, head])) or "prediction"
        columns[name] = _array(output)
    return columns


def _array(values: Any) -> Any:
    """Return an array; a column of shape [n, 1] becomes a plain column."""
    array = values.numpy()
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _write_npz(path: str, batches: Iterator[Columns]) -> None:
    """Write arrays; a .npz file is written at once, so all rows have to fit into memory."""
    parts = list(batches)
    columns = {
        name: np.concatenate([part[name] for part in parts]) for name in (parts[0] if parts else {})
    }
    with open(path, "wb") as file:
        # `np.savez` would add .npz to a path, and the unfinished file has a random name without it.
        np.savez(file, **{name: _texts(values) for name, values in columns.items()})


def _write_csv(path: str, batches: Iterator[Columns]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        # The csv module writes line ends of its own, hence the empty `newline`.
        writer = csv.writer(file)
        # The names of columns are known with the first batch; without rows the file is empty.
        header: list[str] = []
        for columns in batches:
            if not header:
                header = list(columns)
                writer.writerow(header)
            writer.writerows(
                zip(*([_cell(cell) for cell in _texts(columns[name])] for name in header))
            )


def _write_tfrecord(path: str, batches: Iterator[Columns]) -> None:
    """Write each row as a tf.train.Example."""
    with tf.io.TFRecordWriter(path) as writer:
        for columns in batches:
            names = list(columns)
            for cells in zip(*columns.values()):
                example = tf.train.Example()
                for name, cell in zip(names, cells):
                    _fill(example.features.feature[name], np.ravel(as_array(cell)))
                writer.write(example.SerializeToString())


_WRITERS: Mapping[str, Callable[[str, Iterator[Columns]], None]] = {
    "npz": _write_npz,
    "csv": _write_csv,
    "tfrecord": _write_tfrecord,
}


def _fill(feature: Any, values: Any) -> None:
    """Add values to a feature: booleans and integers as int64, and texts as bytes."""
    if values.dtype.kind == "f":
        feature.float_list.value.extend(values.tolist())
    elif values.dtype.kind in "iub":
        feature.int64_list.value.extend(values.astype(np.int64).tolist())
    else:
        feature.bytes_list.value.extend(values.tolist())


def _texts(values: Any) -> Any:
    """Decode an array of bytes, as arrays of objects can only be pickled."""
    if values.dtype.kind != "O":
        return values
    return np.vectorize(lambda value: value.decode("utf-8", "replace"), otypes=[str])(values)


def _cell(value: Any) -> Any:
    """Return a value for CSV; an array becomes JSON, as CSV has no lists."""
    plain = value.tolist()
    return json.dumps(plain) if isinstance(plain, list) else plain
