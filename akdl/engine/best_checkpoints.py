"""The best checkpoints of a training by a metric: copies beside the newest ones, which come and go."""

import glob
import json
import math
import os
import shutil
from typing import Any, Dict, Mapping, Optional

import tensorflow as tf

from akdl.storage.whole_file import WholeFile

FOLDER = "best"
METRICS_FILE = "metrics.json"

KEYS = {"keep_best_checkpoints", "best_checkpoint_metric", "best_checkpoint_bigger"}


class BestCheckpoints:
    """Keeps the best checkpoints of a folder in the folder `best` there.

    `best/metrics.json` maps the name of each to its value, the best first; `tf.train.latest_checkpoint` finds the best one.

    Args:
        folder: Where the training keeps its checkpoints.
        metric: Name of the metric.
        count: How many to keep.
        bigger: Whether larger is better.
    """

    def __init__(self, folder: str, metric: str, count: int, bigger: bool = False) -> None:
        self._folder = os.path.join(folder, FOLDER)
        self._metric, self._count, self._sign = metric, count, -1.0 if bigger else 1.0

    def offer(self, checkpoint: str, metrics: Mapping[str, Any]) -> bool:
        """Copy a checkpoint when it is among the best ones, and return whether it is.

        Args:
            checkpoint: Path of the checkpoint without the endings of its files.
            metrics: Its metrics by name.

        Raises:
            ValueError: There is no such metric.
        """
        if self._metric not in metrics:
            raise ValueError(
                f"best_checkpoint_metric: there is no metric {self._metric!r}; the metrics are {', '.join(sorted(metrics))}"
            )
        value, name = float(metrics[self._metric]), os.path.basename(checkpoint)
        ranked = self._ranked({**self._known(), name: value})
        if math.isnan(value) or name not in ranked:
            return False
        os.makedirs(self._folder, exist_ok=True)
        for path in glob.glob(glob.escape(checkpoint) + ".*"):
            with open(path, "rb") as file, WholeFile(os.path.join(self._folder, os.path.basename(path))) as copy:
                shutil.copyfileobj(file, copy)
        dropped = set(self._known()) - set(ranked)
        self._write(ranked)
        for name in dropped:
            for path in glob.glob(os.path.join(glob.escape(self._folder), glob.escape(name) + ".*")):
                os.remove(path)
        return True

    def _ranked(self, values: Mapping[str, float]) -> Dict[str, float]:
        """Return the best ones, the best first; of equal ones the earlier is the better."""
        return dict(sorted(values.items(), key=lambda item: self._sign * item[1])[: self._count])

    def _known(self) -> Dict[str, float]:
        path = os.path.join(self._folder, METRICS_FILE)
        if not os.path.exists(path):
            return {}
        with open(path, encoding="utf-8") as file:
            known: Dict[str, float] = json.load(file)
        return known

    def _write(self, ranked: Mapping[str, float]) -> None:
        with WholeFile(os.path.join(self._folder, METRICS_FILE)) as file:
            file.write(json.dumps(ranked, indent=1).encode("utf-8"))
        tf.compat.v1.train.update_checkpoint_state(
            self._folder, next(iter(ranked)), list(ranked)
        )  # by names alone, so that the folder can be moved


def best_checkpoints(train_config: Mapping[str, Any], folder: Optional[str], metric: str) -> Optional[BestCheckpoints]:
    """Return what keeps the best checkpoints; None where a train config does not ask for any.

    Args:
        train_config: `keep_best_checkpoints`, how many; `best_checkpoint_metric` and `best_checkpoint_bigger`.
        folder: Where the checkpoints are; None for nowhere.
        metric: The metric where the config names none.

    Raises:
        ValueError: There is no folder, or the number is wrong.
    """
    count = train_config.get("keep_best_checkpoints")
    if count is None:
        return None
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"train_config: keep_best_checkpoints: expected a whole number of at least 1, got {count!r}")
    if folder is None:
        raise ValueError("train_config: keep_best_checkpoints needs a place for checkpoints: set checkpointDir on the operator")
    bigger = bool(train_config.get("best_checkpoint_bigger", False))
    return BestCheckpoints(folder, train_config.get("best_checkpoint_metric") or metric, count, bigger)
