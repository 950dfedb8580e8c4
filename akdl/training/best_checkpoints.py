"""The best checkpoints of a training by a metric, copied next to the newest ones.

TensorFlow's manager keeps the newest checkpoints and removes older ones in turn, so the best one
would be lost a few epochs later. A copy in a subfolder is out of the manager's reach.
"""

import json
import math
import os
import shutil
from typing import Any, Dict, Mapping, Optional

from akdl.storage.whole_file import WholeFile
from akdl.training.training_saves import files_of, record
from akdl.user_code.config_file import Config

FOLDER = "best"
METRICS_FILE = "metrics.json"

KEYS = {"keep_best_checkpoints", "best_checkpoint_metric", "best_checkpoint_bigger"}


class BestCheckpoints:
    """The `count` best checkpoints of a folder, in its subfolder `best`.

    `best/metrics.json` has their values, best first. It is read again for each offer, so a training
    that resumes compares its checkpoints with the ones of earlier attempts. Only the chief makes
    offers.
    """

    def __init__(self, folder: str, metric: str, count: int, bigger: bool = False) -> None:
        self._folder = os.path.join(folder, FOLDER)
        self._metric, self._count, self._sign = metric, count, -1.0 if bigger else 1.0

    def offer(self, checkpoint: str, metrics: Mapping[str, Any]) -> bool:
        """Copy a checkpoint if it is among the best ones, and return whether it is.

        Args:
            checkpoint: Path without extensions, as TensorFlow returns it; all files that begin so
                are copied.
            metrics: The values of the evaluation by name; the metric of this object has to be among
                them.

        Raises:
            ValueError: The evaluation has no such metric.
        """
        if self._metric not in metrics:
            raise ValueError(
                f"best_checkpoint_metric: expected one of {', '.join(sorted(metrics))}, got {self._metric!r}: choose one, or "
                "compile the model with this metric"
            )
        known = self._known()
        value, name = float(metrics[self._metric]), os.path.basename(checkpoint)
        # Best first. The sort is stable, so the earlier of two equal checkpoints counts as better
        # and is not replaced.
        order = sorted({**known, name: value}.items(), key=lambda item: self._sign * item[1])
        ranked = dict(order[: self._count])
        # A NaN compares as false with every number, so its place in the order means nothing.
        if math.isnan(value) or name not in ranked:
            return False
        os.makedirs(self._folder, exist_ok=True)
        # The files come first, then their names, and old files are removed last. A process that is
        # killed in between leaves files too many, never a name without its files.
        for path in files_of(checkpoint):
            # Each copy appears complete or not at all, as a reader may look at the folder at any
            # time.
            with open(path, "rb") as file, WholeFile(os.path.join(self._folder, os.path.basename(path))) as copy:
                shutil.copyfileobj(file, copy)
        with WholeFile(os.path.join(self._folder, METRICS_FILE)) as metrics_file:
            metrics_file.write(json.dumps(ranked, indent=1).encode("utf-8"))
        record(self._folder, next(iter(ranked)), list(ranked), set(known) - set(ranked))
        return True

    def _known(self) -> Dict[str, float]:
        path = os.path.join(self._folder, METRICS_FILE)
        if not os.path.exists(path):
            return {}
        with open(path, encoding="utf-8") as file:
            known: Dict[str, float] = json.load(file)
        return known


def best_checkpoints(train_config: Config, folder: Optional[str], metric: str) -> Optional[BestCheckpoints]:
    """Read the keys of a train config.

    The result is None without `keep_best_checkpoints`. `metric` is the default metric.
    """
    count = train_config.get("keep_best_checkpoints")
    if count is None:
        return None
    # A bool is an int in Python, so `true` in a config would otherwise pass as 1.
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"train_config: keep_best_checkpoints: expected a whole number of at least 1, got {count!r}")
    if folder is None:
        raise ValueError("train_config: keep_best_checkpoints needs a place for checkpoints: set checkpointDir on the operator")
    bigger = bool(train_config.get("best_checkpoint_bigger", False))
    return BestCheckpoints(folder, train_config.get("best_checkpoint_metric") or metric, count, bigger)
