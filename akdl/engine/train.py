"""Training with export: Estimators in one process or a group, and Keras models.

The configs are mappings with the keys of Alink's documentation:

- `input_config`: `example_config` (see `akdl.engine.inputs.parse_feature_specs`) and `label_col`;
  or `example_parser`; or `columns_parser` and `columns`. `columns_parser` is a function from
  batches of `tf_context.batches` to (features, label); `columns` names its columns. With
  `columns_parser`, and with an `example_config` whose features are columns of the same type, no row
  is parsed. Keras also takes `weight_col`, the column with the weight of each row. An Estimator
  takes a weight from the features.
- `train_config`: the arguments of `akdl.engine.inputs.get_dataset` (`raw_dataset_fn` defaults to
  the rows of this worker), the arguments of `akdl.engine.run_config.generate_run_config`, and
  `valid_raw_dataset_fn`, a function that returns a dataset of serialized rows for validation.
  Without it there is no evaluation: metrics of the training rows would mislead.
- `export_config`: `placeholders_config` and `export_batch_dim`, see
  `akdl.engine.inputs.get_feature_placeholders`; and `saved_model_dir`, the folder of exports in
  place of `task_config.saved_model_dir`.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import tempfile
import time
from typing import Any, Callable, Mapping

import tensorflow as tf

from akdl.engine import inputs
from akdl.engine.estimator_group import CommonSteps, count_rows, is_group, served_by_default
from akdl.engine.estimator_watch import EstimatorWatch
from akdl.engine.run_config import generate_run_config
from akdl.engine.strategy import require_keras_for
from akdl.features import parse_examples
from akdl.keras import keras_fit
from akdl.keras.keras_fit import Plan, fit, steps_per_execution
from akdl.runner.config import TaskConfig
from akdl.runner.context import TFContext
from akdl.tf_version import is_keras_3, require_estimator
from akdl.training.checkpoints import BEST, BEST_KEYS, latest
from akdl.training.workers import is_parameter_server_strategy
from akdl.user_code.config_file import Config

InputFn = Callable[..., Any]

logger = logging.getLogger(__name__)

_DATASET_KEYS = set(inspect.signature(inputs.get_dataset).parameters) - {"ignored"}
_RUN_CONFIG_KEYS = set(inspect.signature(generate_run_config).parameters) - {"ignored"}
_OWN_KEYS = {
    "valid_raw_dataset_fn",
    "early_stopping_patience_steps",
    "steps_per_epoch",
    "max_steps",
    "hooks",
}
_OWN_KEYS |= BEST_KEYS | keras_fit.KEYS


def train_estimator(
    estimator: Any,
    input_config: Config,
    train_config: Config,
    export_config: Config,
    task_config: TaskConfig,
) -> dict[str, Any] | None:
    """Train an Estimator on this worker's rows, alone or in the group of TF_CONFIG, and export it
    on the chief.

    A parameter server serves until its process is stopped. Without parameter servers all workers of
    a group make the number of steps of the largest share; smaller shares start again.

    Args:
        estimator: A `tf.estimator.Estimator` whose config is from `generate_run_config`.
        input_config: See above, as for `export_config`.
        train_config: See above. `max_steps` ends the training of the whole group at this global
            step; `hooks` are hooks for training, such as the hook of
            `akdl.engine.sync.sync_optimizer`.
        task_config: The SavedModel is written to a folder below its `saved_model_dir` that is named
            by the time.

    Returns:
        The metrics of the last evaluation; None in other roles than the chief, and without
        `valid_raw_dataset_fn`.

    Raises:
        ValueError: A config is wrong.
        RuntimeError: This TensorFlow has no Estimator.
    """
    module = require_estimator("train_estimator")
    if is_group(estimator.config) and estimator.config.train_distribute is not None:
        # In step, TensorFlow fails on all workers when the first one has no more rows.
        replicas = estimator.config.train_distribute.num_replicas_in_sync
        train_config = _in_common_steps(train_config, task_config, replicas)
    input_fn, valid_fn = _input_fns(input_config, train_config, task_config)
    serving_fn = _serving_fn(module, export_config)
    export_dir = _export_dir(export_config, task_config)
    watch = EstimatorWatch(estimator, task_config, train_config, _eval_spec(module, valid_fn))
    watch.train(
        input_fn, train_config.get("max_steps"), train_config.get("hooks") or [], skips=True
    )
    if not _exports(task_config):
        return None
    metrics = watch.end()
    served_by_default(estimator).export_saved_model(export_dir, serving_fn)
    return metrics


def train_estimator_one_worker(
    estimator: Any,
    input_config: Config,
    train_config: Config,
    export_config: Config,
    task_config: TaskConfig,
) -> dict[str, Any] | None:
    """Train an Estimator in this process alone, evaluate it at every checkpoint, and export the
    last or the best one.

    Arguments as in `train_estimator`, with further keys:

    - `train_config`: `early_stopping_patience_steps`, to end when the metric has not improved for
      so many steps.
    - `export_config`: `exporter_type`, "latest" (default) or "best"; `best_exporter_metric`
      ("loss"), the metric for early stopping and "best"; `metric_bigger` (False), True if larger is
      better.

    Returns:
        The metrics of the last evaluation; None without `valid_raw_dataset_fn`.

    Raises:
        ValueError: A config is wrong, such as early stopping or "best" without
            `valid_raw_dataset_fn`.
        RuntimeError: This TensorFlow has no Estimator.
    """
    module = require_estimator("train_estimator_one_worker")
    if estimator.config.cluster_spec.jobs:
        roles = ", ".join(estimator.config.cluster_spec.jobs)
        raise ValueError(
            "train_estimator_one_worker trains in one process, but the estimator's config has a"
            f" cluster of {roles}: use train_estimator for a group, or generate_run_config for the"
            " config of a chief alone"
        )
    kind = export_config.get("exporter_type") or "latest"
    if kind not in ("latest", "best"):
        raise ValueError(f"export_config has exporter_type {kind!r}, expected 'latest' or 'best'")
    best = kind == "best"
    metric = export_config.get("best_exporter_metric") or "loss"
    bigger = bool(export_config.get("metric_bigger", False))
    patience = train_config.get("early_stopping_patience_steps")
    input_fn, valid_fn = _input_fns(input_config, train_config, task_config)
    serving_fn = _serving_fn(module, export_config)
    export_dir = _export_dir(export_config, task_config)
    if valid_fn is None and (best or patience is not None):
        what = "early_stopping_patience_steps" if patience is not None else "exporter_type 'best'"
        raise ValueError(
            f"{what} needs rows to evaluate on: set valid_raw_dataset_fn in train_config"
        )
    if best:
        # The best checkpoint is exported, so it has to be kept. `train_config` may keep more than
        # one, but it cannot choose another metric than the export.
        chosen = {"best_checkpoint_metric": metric, "best_checkpoint_bigger": bigger}
        train_config = {"keep_best_checkpoints": 1, **train_config, **chosen}
    # The empty list of receivers asks for evaluations during the training, which the hook of early
    # stopping reads from the disk.
    watch = EstimatorWatch(estimator, task_config, train_config, _eval_spec(module, valid_fn), [])
    hooks = list(train_config.get("hooks") or [])
    if patience is not None:
        kinds = module.experimental
        make = kinds.stop_if_no_increase_hook if bigger else kinds.stop_if_no_decrease_hook
        # The hook lists this folder, even before the first evaluation makes it.
        os.makedirs(estimator.eval_dir(), exist_ok=True)
        # Evaluations are made at checkpoints, so between two of them the hook would find nothing
        # new.
        every = estimator.config.save_checkpoints_steps or int(patience)
        hooks.append(
            make(estimator, metric, int(patience), run_every_secs=None, run_every_steps=every)
        )
    watch.train(input_fn, train_config.get("max_steps"), hooks, skips=True)
    found = watch.end()
    checkpoint = latest(os.path.join(estimator.model_dir, BEST)) if best else None
    served_by_default(estimator).export_saved_model(
        export_dir, serving_fn, checkpoint_path=checkpoint
    )
    return found


def train_keras_model(
    model: Any,
    input_config: Config,
    train_config: Config,
    task_config: TaskConfig,
    export_config: Config | None = None,
) -> Any:
    """Fit a compiled Keras model on the rows of this worker or group and export it as a SavedModel
    on the chief.

    In a group, build and compile the model under
    `akdl.engine.strategy.choose_strategy(task_config)`:

    - Workers in step (`MultiWorkerMirroredStrategy`): each worker calls this. `batch_size` is the
      number of rows in a step of all workers together. An epoch ends with the largest share;
      workers that end earlier take part with empty batches.
    - Parameter servers (`ParameterServerStrategy`): only the chief reaches this call. Each worker
      shuffles and repeats its own share; an epoch is the number of steps of `batch_size` rows in
      all shares, each made by the next free worker.

    A row of weight 0 (`weight_col`) adds nothing to the loss, but the mean of a batch is still over
    all its rows. Metrics use the weight if the model was compiled with them as `weighted_metrics`.

    Args:
        model: A compiled `tf.keras.Model` that takes the features by name.
        input_config: See above.
        train_config: See above; `num_epochs` are passes over the rows, each followed by an
            evaluation with `valid_raw_dataset_fn`; `steps_per_epoch` is the number of steps of an
            epoch over repeated rows.
        task_config: The SavedModel is written to a folder below its `saved_model_dir` that is named
            by the time.
        export_config: Of it, `saved_model_dir`, needed if `task_config` has no such folder, and
            `save_fn`, a function of the model and a folder that writes the SavedModel.

    Returns:
        The `History` of `model.fit`.

    Raises:
        ValueError: A config is wrong, a worker with parameter servers has no rows, or Keras 3
            trains in a group.
    """
    strategy = getattr(model, "distribute_strategy", None)
    require_keras_for(strategy)
    export_config = export_config or {}
    steps, export_dir = train_config.get("steps_per_epoch"), _export_dir(export_config, task_config)
    save = export_config.get("save_fn") or _save_keras
    train_config = dict(train_config, weight_col=input_config.get("weight_col"))
    epochs = int(_required(train_config, "num_epochs"))
    by_servers = is_parameter_server_strategy(strategy)
    if by_servers:
        data, steps = _input_by_workers(input_config, train_config, task_config)
        input_fn, valid_fn = (lambda seed: data), None
    else:
        # `fit` repeats single passes itself. With `steps_per_epoch` the input is one endless pass,
        # of which an epoch takes so many steps.
        repeat, rows = 1 if steps is None else None, task_config.tf_context.rows
        if (
            steps is None
            and steps_per_execution(model) != 1
            and not (rows.is_once or rows.is_stream)
        ):
            # `length` waits for the last row. Keras makes several steps in one call only if it can
            # count the rows.
            rows.length()
        input_fn, valid_fn = _input_fns(
            input_config, dict(train_config, num_epochs=repeat), task_config
        )
    history = fit(model, Plan(input_fn, valid_fn, epochs, steps, train_config), task_config)
    if by_servers or _exports(task_config):
        save(model, os.path.join(export_dir, str(int(time.time()))))
    else:
        # Saving reads variables that are sums over workers, so all of them have to take part.
        with tempfile.TemporaryDirectory(dir=task_config.work_dir) as folder:
            save(model, os.path.join(folder, "model"))
    return history


def _input_by_workers(
    input_config: Config, train_config: Config, task_config: TaskConfig
) -> tuple[Any, int]:
    """Return the data for `fit` under parameter servers, read on each worker from its own share,
    and the steps of an epoch.
    """
    if train_config.get("valid_raw_dataset_fn") is not None:
        raise ValueError(
            "valid_raw_dataset_fn cannot be used with parameter servers, whose workers would each"
            " evaluate on other rows: call model.evaluate in another process, on the exported model"
        )
    workers = len(task_config.cluster["worker"])
    batch_size = int(_required(train_config, "batch_size"))
    steps, raw_dataset_fn = train_config.get("steps_per_epoch"), train_config.get("raw_dataset_fn")
    paths: list[str] = []
    if raw_dataset_fn is None:
        shares = task_config.tf_context.shares()
        # The stride is the one of `shard` in `own_rows`, which decides what a worker reads.
        empty = [
            worker
            for worker in range(workers)
            if not any(share.rows for share in shares[worker::workers])
        ]
        if empty:
            raise ValueError(
                f"worker {empty[0]} got no rows to train on: feed more rows or set fewer workers"
            )
        paths = [share.path for share in shares]
        steps = steps or -(-sum(share.rows for share in shares) // batch_size)
    elif steps is None:
        raise ValueError(
            "with parameter servers, raw_dataset_fn needs the key 'steps_per_epoch' in train_config"
        )

    def own_rows(worker: Any) -> Any:
        # The chief traces this function once for all workers, so the number of the worker is a
        # tensor.
        files = tf.data.Dataset.from_tensor_slices(paths).shard(workers, worker)
        return files.flat_map(tf.data.TFRecordDataset)

    def dataset_fn(input_context: Any) -> Any:
        # One worker makes a step of `batch_size` rows, and divides it among its devices.
        replica_batch = -(-batch_size // input_context.num_replicas_in_sync)
        raw = raw_dataset_fn or functools.partial(own_rows, _worker_number(input_context))
        config = dict(train_config, raw_dataset_fn=raw, num_epochs=None, batch_size=replica_batch)
        return _input_fns(input_config, config, task_config)[0]()

    return tf.keras.utils.experimental.DatasetCreator(dataset_fn), int(steps)


def _worker_number(input_context: Any) -> Any:
    # In later versions `input_pipeline_id` is 0 on all workers, because each of them has one
    # pipeline.
    number = getattr(tf.distribute.coordinator, "experimental_get_current_worker_index", None)
    return input_context.input_pipeline_id if number is None else number()


def _input_fns(
    input_config: Config, train_config: Config, task_config: TaskConfig
) -> tuple[InputFn, InputFn | None]:
    unknown = sorted(set(train_config) - _DATASET_KEYS - _RUN_CONFIG_KEYS - _OWN_KEYS)
    if unknown:
        logger.warning("train_config: unknown keys are ignored: %s", ", ".join(unknown))
    for key in ("batch_size", "num_epochs"):
        _required(train_config, key)
    context = task_config.tf_context
    arguments = {key: value for key, value in train_config.items() if key in _DATASET_KEYS}
    raw, valid_raw = arguments.pop("raw_dataset_fn", None), train_config.get("valid_raw_dataset_fn")
    # The first epoch reads rows while they arrive. Later epochs read the file that holds them by
    # then.
    of_rows = {**arguments, **_row_parsing(input_config, context)}
    input_fn = inputs.get_dataset_fn(**of_rows, raw_dataset_fn=raw or context.flink_stream_dataset)
    valid_fn = None
    if valid_raw is not None:
        # An evaluation is one pass, and its metrics do not depend on the order of the rows.
        valid_fn = inputs.get_dataset_fn(
            **dict(of_rows, raw_dataset_fn=valid_raw, num_epochs=1, shuffle_factor=0)
        )
    takes_rows = (
        input_config.get("example_parser"),
        arguments.get("example_parser"),
        arguments.get("post_process_dataset"),
    )
    # Columns become batches without parsing any row. A function of the user's that takes serialized
    # rows rules this out.
    if raw is None and all(one is None for one in takes_rows):
        parser, columns = _columns_parsing(
            input_config, of_rows["feature_specs"], arguments.get("weight_col"), context
        )
        if parser is not None:

            def columns_fn(**changes: Any) -> Any:
                """Return the dataset of `get_dataset`, from rows that need no parsing."""
                # The defaults are the ones of `get_dataset`, because the same config has to train
                # alike whether its rows are parsed or not.
                own = {"shuffle_factor": 10, "num_parallel_calls": 8, **arguments, **changes}
                dataset = context.batches(
                    own["batch_size"],
                    columns=columns,
                    shuffle_rows=own["batch_size"] * own["shuffle_factor"],
                    num_epochs=own["num_epochs"],
                    seed=own.get("seed"),
                ).map(parser, num_parallel_calls=own["num_parallel_calls"])
                prefetched = own.get("prefetch_buffer_size")
                return dataset if prefetched is None else dataset.prefetch(prefetched)

            return columns_fn, valid_fn
    return input_fn, valid_fn


def _row_parsing(input_config: Config, context: TFContext) -> dict[str, Any]:
    parsing = {"feature_specs": None, "label_col": input_config.get("label_col")}
    if input_config.get("example_parser") is not None:
        parsing["example_parser"] = input_config["example_parser"]
    elif input_config.get("columns_parser") is not None:
        columns = [column for column in context.columns if column.name in input_config["columns"]]
        parser = input_config["columns_parser"]
        # This is for rows that are serialized nevertheless, as `valid_raw_dataset_fn` returns them.
        parsing["example_parser"] = lambda rows: parser(
            parse_examples(rows, columns, context.exact_doubles)
        )
    elif "example_config" in input_config:
        parsing["feature_specs"] = inputs.parse_feature_specs(input_config["example_config"])
    return parsing


def _columns_parsing(
    input_config: Config,
    specs: Mapping[str, object] | None,
    weight_col: str | None,
    context: TFContext,
) -> tuple[inputs.ColumnsParser | None, list[str]]:
    """Return the function from columns to (features, label), and their names.

    The result is None if rows have to be parsed.
    """
    if input_config.get("columns_parser") is not None:
        return input_config["columns_parser"], list(input_config["columns"])
    label = input_config.get("label_col")
    if specs is None or label is None:
        return None, []
    return inputs.get_columns_parser(
        specs, label, weight_col, context.columns, context.exact_doubles
    ), list(specs)


def _required(train_config: Config, key: str) -> Any:
    if key not in train_config:
        raise ValueError(
            f"train_config needs the key {key!r}, got"
            f" {', '.join(sorted(train_config)) or 'no keys'}"
        )
    return train_config[key]


def _export_dir(export_config: Config, task_config: TaskConfig) -> str:
    folder = export_config.get("saved_model_dir") or getattr(task_config, "saved_model_dir", None)
    if folder is None:
        raise ValueError(
            f"a {type(task_config).__name__} has no saved_model_dir: set one in export_config"
        )
    return str(folder)


def _in_common_steps(train_config: Config, task_config: TaskConfig, replicas: int) -> Config:
    """Return the config with the same number of steps for all workers.

    Smaller shares are repeated. `replicas` is the number of devices of all workers.
    """
    epochs = _required(train_config, "num_epochs")
    batch_size = _required(train_config, "batch_size")
    # Rows that are repeated indefinitely last for the steps of every other worker.
    if epochs is None:
        return train_config
    raw_dataset_fn = train_config.get("raw_dataset_fn")
    rows = (
        task_config.tf_context.rows.length()
        if raw_dataset_fn is None
        else count_rows(raw_dataset_fn)
    )
    if rows is None:
        return train_config
    if not rows:
        raise ValueError(
            f"{task_config.task_type} {task_config.task_index} got no rows to train on: feed more"
            " rows or set fewer workers"
        )
    # TF_CONFIG counts the workers apart from the chief.
    worker = 0 if task_config.task_type == "chief" else task_config.task_index + 1
    # A step takes one batch for each device of the worker. The steps are rounded up, because the
    # last batch of all passes may be smaller.
    rows_of_step = batch_size * max(1, replicas // task_config.num_workers)
    hook = CommonSteps(-(-rows * epochs // rows_of_step), worker, task_config.num_workers)
    return dict(train_config, num_epochs=None, hooks=[*(train_config.get("hooks") or []), hook])


def _exports(task_config: TaskConfig) -> bool:
    """Test for the one process of a group that exports."""
    return task_config.task_type == "chief" or (
        task_config.num_workers == 1 and task_config.task_type != "ps"
    )


def _eval_spec(module: Any, valid_fn: InputFn | None) -> Any:
    """Return the spec of evaluations on all validation rows, at every checkpoint; None without
    rows.

    TensorFlow's default is 100 batches every ten minutes.
    """
    return (
        None
        if valid_fn is None
        else module.EvalSpec(valid_fn, steps=None, start_delay_secs=0, throttle_secs=0)
    )


def _serving_fn(module: Any, export_config: Config) -> Any:
    if "placeholders_config" not in export_config:
        raise ValueError(
            "export_config needs the key 'placeholders_config', got"
            f" {', '.join(export_config) or 'no keys'}"
        )
    batch_dim = bool(export_config.get("export_batch_dim", False))
    placeholders = inputs.get_feature_placeholders(export_config["placeholders_config"], batch_dim)
    return module.export.build_raw_serving_input_receiver_fn(placeholders)


def _save_keras(model: Any, path: str) -> None:
    # `tf.saved_model.save` does not take models of Keras 3.
    if is_keras_3():
        model.export(path)
    else:
        tf.saved_model.save(model, path)
