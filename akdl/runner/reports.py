"""Numbers of a training, as the script reports them, on their way to the Flink side.

Nothing is sent here: the thread that tells the Flink side of the script's progress takes the latest values along.
"""

import numbers
import threading
from typing import Any, Mapping, Optional

from akdl.wire import Report


class Reports:
    """The latest value of each metric that a script has reported.

    Attributes:
        is_exporting: Whether the training is over, and the model is being exported.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest = Report()
        self.is_exporting = False

    def add(self, step: Optional[int], metrics: Mapping[str, Any]) -> None:
        """Note values in place of older ones, see `akdl.runner.config.TaskConfig.report`."""
        values = {name: _number(name, value) for name, value in metrics.items()}
        at = None if step is None else int(_number("step", step))
        with self._lock:
            self._latest.number += 1
            if at is not None:
                self._latest.step = at
            for name, value in values.items():
                self._latest.metrics[name] = value

    def latest(self) -> Report:
        """Return a copy of the latest values."""
        copy = Report()
        with self._lock:
            copy.CopyFrom(self._latest)
        return copy


def _number(name: str, value: Any) -> float:
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, (str, bytes)) or getattr(value, "shape", None) != ():  # an array of no dimension is a number
        raise TypeError(f"report({name}=...): expected a number, got {value!r} of type {type(value).__name__}")
    return float(value)
