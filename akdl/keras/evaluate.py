"""Metrics of models: of several ones on test datasets, and of one after each epoch of its training.

The datasets of a validation are made and tried before the first epoch, because labels that do not
fit the model would otherwise fail after it, which may take hours.
"""

from __future__ import annotations

import csv
import json
import logging
from typing import Any, Mapping, Sequence

from akdl.keras.saving import load_model, require_models, require_targets, wrong_file
from akdl.keras.task_configs import EVALUATE, prepare
from akdl.training.data import DatasetSource, label_of
from akdl.training.loop import Evaluation, Objective
from akdl.training.model_call import call_on_sample
from akdl.training.objects import Heads, unknown_names
from akdl.training.row_metrics import Metrics
from akdl.training.training_watch import Report
from akdl.training.user_functions import UserModule
from akdl.training.workers import Group
from akdl.user_code.config_file import Config

logger = logging.getLogger(__name__)

MODEL = "model"


def evaluate(
    config: str | Config,
    module: object,
    placeholders: Mapping[str, str] | None = None,
    report: Report | None = None,
    worker_datasets: bool = False,
) -> list[dict[str, Any]]:
    """Evaluate models on the datasets of `awf_create_test_dataset_fn`.

    In a group every worker calls this and gets the same result; the chief writes the files.

    Args:
        config: An evaluate config, or the path of its JSON file.
        module: The user's module with the callbacks.
        placeholders: Values of `${NAME}$` in the config; other values come from the environment.
        report: Receives a line per model, on the chief; None logs it.
        worker_datasets: The datasets of each worker have its own rows.

    Returns:
        A row per model: its name under "model", and a value per metric and dataset. With several
        datasets the metrics are named `auc(0)`, `auc(1)`, or by the keys of a dict of datasets.

    Raises:
        akdl.user_code.config_file.ConfigError: The config is wrong; lists all mistakes.
        ValueError: A model and the datasets do not fit together.
    """
    user = UserModule(module)
    checked = prepare(EVALUATE, config, placeholders, user, unknown_names)
    # The config is checked first, so that a mistake is an error before a server of the group
    # starts.
    group = Group()
    output = checked.get("output", {})
    # The files are tried before the models are loaded, so that a wrong path is an error at once.
    require_targets(
        EVALUATE,
        group,
        [one for key, path in output.items() for one in wrong_file(f"output.{key}", path)],
    )
    require_models(user, checked["models"])
    measured = Measured(user, "awf_create_test_dataset_fn", checked, group, worker_datasets)
    rows = []
    for named in checked["models"]:
        with group.strategy.scope():
            model = load_model(user, named["path"], named["name"])
        measured.prepare(model, name=named["name"])
        row = {MODEL: named["name"], **measured.run()}
        rows.append(row)
        if group.is_chief:
            (report or logger.info)(
                "  ".join(f"{key} {_text(value)}" for key, value in row.items())
            )
    if group.is_chief:
        # The results are sums over the group, so every worker has them, and one writes.
        _write(rows, output)
    return rows


def as_table(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows as text with aligned columns, for the command line."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([_text(row.get(name, "")) for name in names] for row in rows)]
    widths = [max(len(line[number]) for line in lines) for number in range(len(names))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if number == 0 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths))
        )
        for line in lines
    )


def _write(rows: Sequence[Mapping[str, object]], output: Mapping[str, str]) -> None:
    # The folders exist since the paths were tried.
    if "json" in output:
        with open(output["json"], "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=2)
            file.write("\n")
    if "csv" in output:
        # The csv module writes line ends of its own, hence the empty `newline`.
        with open(output["csv"], "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
            writer.writeheader()
            writer.writerows(rows)


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class Measured:
    """The datasets of a user's function, on which models are measured; all workers have to make and
    call it.

    Without the function it has no datasets, and `run` returns no metrics. Each worker has rows of
    its `own` if the dataset reads the rows that the operator gave it.
    """

    def __init__(
        self, user: UserModule, callback: str, config: Config, group: Group, own: bool
    ) -> None:
        self._user, self._config, self._group = user, config, group
        self._datasets: dict[str, Any] = {}
        if user.has(callback):
            self._source = DatasetSource(user, callback, config, group, own=own)
            self._datasets = self._source.datasets()
        self.samples = {
            key: self._source.sample(dataset, key) for key, dataset in self._datasets.items()
        }

    def prepare(
        self,
        model: Any,
        heads: Heads | None = None,
        objective: Objective | None = None,
        name: str = "",
    ) -> None:
        """Try model, loss and metrics on a sample of each dataset; all workers call this.

        The name of one of several models stands in its errors.
        """
        for key, sample in self.samples.items():
            where = f"{f'model {name} on ' * bool(name)}{self._source.where(key)}"
            outputs = call_on_sample(self._group, model, sample, where)
            metrics = Metrics(
                self._config,
                self._user.module,
                heads or Heads(model, outputs),
                sample.label,
                outputs,
            )
            evaluation = Evaluation(self._group, model, metrics, objective)
            evaluation.try_on(sample, outputs, where)
            # One evaluation serves all datasets, because they have one structure.
            self._evaluation = evaluation

    def run(self, prefix: str = "") -> dict[str, float]:
        """Return the metrics of all datasets by name: `val_auc`, for several `val_auc(0)`.

        The values of a metric on all datasets stand next to each other.
        """
        # Each run ends with sums over the group, so all workers have to take the datasets in the
        # same order.
        found = {
            key: self._evaluation.run(self._source, dataset)
            for key, dataset in self._datasets.items()
        }
        names = dict.fromkeys(name for values in found.values() for name in values)
        return {
            label_of(f"{prefix}{name}", key): values[name]
            for name in names
            for key, values in found.items()
        }
