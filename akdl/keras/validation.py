"""Validation after each epoch; its datasets are made and tried before the first epoch.

Labels that do not fit the model would otherwise fail after the first epoch, which may take hours.
"""

from typing import Any, Dict

from akdl.keras.data import DatasetSource, label_of
from akdl.keras.loop import Evaluation, Objective
from akdl.keras.model_call import call_on_sample
from akdl.keras.objects import Heads
from akdl.keras.row_metrics import Metrics
from akdl.keras.user_functions import UserModule
from akdl.keras.workers import Group
from akdl.user_code.config_file import Config

_CALLBACK = "awf_create_val_dataset_fn"


class Validation:
    """The validation datasets of a user's module; all workers have to make and call it.

    Without `awf_create_val_dataset_fn` it has no datasets, and `run` returns no metrics.
    """

    def __init__(self, user: UserModule, config: Config, group: Group) -> None:
        self._user, self._config, self._group = user, config, group
        self._datasets: Dict[str, Any] = {}
        if user.has(_CALLBACK):
            # Each worker has rows of its own if the dataset reads the rows that the operator gave
            # it.
            own = "val" in config.get("worker_datasets", [])
            self._source = DatasetSource(user, _CALLBACK, config, group, own=own)
            self._datasets = self._source.datasets()
        self._samples = {key: self._source.sample(dataset, key) for key, dataset in self._datasets.items()}

    def prepare(self, model: Any, heads: Heads, objective: Objective) -> None:
        """Try model, loss and metrics on a sample of each dataset; all workers call this.

        The samples are dropped afterwards, so that their memory is free during the training.
        """
        for key, sample in self._samples.items():
            outputs = call_on_sample(self._group, model, sample, self._source.where(key))
            metrics = Metrics(self._config, self._user.module, heads, sample.label, outputs)
            evaluation = Evaluation(self._group, model, metrics, objective)
            evaluation.try_on(sample, outputs, self._source.where(key))
            # One evaluation serves all datasets, because they have one structure.
            self._evaluation = evaluation
        self._samples = {}

    def run(self) -> Dict[str, float]:
        """Return the metrics of all datasets by name: `val_auc`, for several `val_auc(0)`."""
        logs: Dict[str, float] = {}
        for key, dataset in self._datasets.items():
            found = self._evaluation.run(self._source, dataset)
            logs.update({label_of(f"val_{name}", key): value for name, value in found.items()})
        return logs
