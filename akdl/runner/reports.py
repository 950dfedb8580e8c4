"""Metrics of a training, reported by the script.

The script's threads add values, and the thread of the progress sends the latest ones to the Flink
side twice a second. Values in between are dropped, so a report costs microseconds.
"""

import numbers
import threading
from typing import Any, Callable, Dict, Mapping, Optional

from akdl.wire import Report


class Reports:
    """The latest value of each metric; shared by the script's threads and the progress."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest = Report()
        self._gauges: Dict[str, Callable[[], float]] = {}
        # True once the script has returned and its model is checked and packed: the bridge shows
        # this as a phase of its own.
        self.is_exporting = False

    def add(self, step: Optional[int], metrics: Mapping[str, object]) -> None:
        """Replace the latest values.

        All values are converted first: a tensor waits for its computation, and other threads must
        not wait for the lock meanwhile.
        """
        values = {name: _number(name, value) for name, value in metrics.items()}
        at = None if step is None else int(_number("step", step))
        with self._lock:
            self._latest.number += 1
            if at is not None:
                self._latest.step = at
                # The driver finds by the first step of an attempt how much of the former attempt is
                # repeated.
                self._latest.first_step = self._latest.first_step or at
            for name, value in values.items():
                self._latest.metrics[name] = value

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Read a metric whenever the values are sent, which does not count as progress."""
        self._gauges[name] = read

    def latest(self) -> Report:
        """Return a copy, as the message may change while it is serialized."""
        copy = Report()
        with self._lock:
            copy.CopyFrom(self._latest)
        # A copy is iterated, because the script may add a gauge meanwhile, and a dict must not
        # change then.
        for name, read in list(self._gauges.items()):
            copy.metrics[name] = read()
        return copy


def _number(name: str, value: Any) -> float:
    if isinstance(value, numbers.Real):
        return float(value)
    # An array or tensor without dimensions is a number. A text would be converted by `float` too,
    # but is refused.
    if isinstance(value, (str, bytes)) or getattr(value, "shape", None) != ():
        raise TypeError(
            f"report({name}=...): expected a number, got {value!r} of type {type(value).__name__}"
        )
    return float(value)
