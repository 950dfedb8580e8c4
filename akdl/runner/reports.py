"""Metrics of a training, reported by the script; the thread of its progress sends the latest values to the Flink side."""

import numbers
import threading
from typing import Any, Mapping, Optional

from akdl.wire import Report


class Reports:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest = Report()
        self.is_exporting = False

    def add(self, step: Optional[int], metrics: Mapping[str, object]) -> None:
        values = {name: _number(name, value) for name, value in metrics.items()}
        at = None if step is None else int(_number("step", step))
        with self._lock:
            self._latest.number += 1
            if at is not None:
                self._latest.step = at
                self._latest.first_step = self._latest.first_step or at
            for name, value in values.items():
                self._latest.metrics[name] = value

    def latest(self) -> Report:
        copy = Report()
        with self._lock:
            copy.CopyFrom(self._latest)
        return copy


def _number(name: str, value: Any) -> float:
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, (str, bytes)) or getattr(value, "shape", None) != ():  # a 0-d array is a number
        raise TypeError(f"report({name}=...): expected a number, got {value!r} of type {type(value).__name__}")
    return float(value)
