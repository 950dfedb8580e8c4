"""Warns when a script is caught parsing its rows one by one, which takes about twenty times as long as batch by batch."""

import functools
import sys
import threading
from typing import Any, Callable, Optional

WARNING = (
    "akdl: warning: this script parses its rows one by one (tf.io.{name}), which is about twenty times slower than batch by "
    "batch: put dataset.batch(n) first, and tf.io.parse_example into the map after it, or take "
    "task_config.tf_context.batches(n)"
)
BUSY_S = 5.0
MANY_ROWS = 20_000  # fewer are parsed in a second, one way or the other

_NAMES = ("parse_single_example", "parse_single_sequence_example")


class RowParsing:
    """Learns whether a script parses single rows, and for how long it is busy.

    Args:
        say: Takes the warning, once.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._name: Optional[str] = None
        self._busy_since: Optional[float] = None
        self._has_warned = False

    def watch(self) -> None:
        """Note the use of TensorFlow's functions for single rows from now on, where the script has imported TensorFlow."""
        tensorflow = sys.modules.get("tensorflow")
        if tensorflow is None:
            return
        v1 = getattr(getattr(tensorflow, "compat", None), "v1", tensorflow)
        for module in (tensorflow, tensorflow.io, v1, v1.io):
            for name in _NAMES:
                original = getattr(module, name, None)
                if original is not None:
                    setattr(module, name, self._noting(name, original))

    def look(self, rows: int, is_waiting: bool, now: float) -> None:
        """Warn when the script has been busy for long with many rows.

        Args:
            rows: How many the script has taken.
            is_waiting: Whether the script waits for rows.
            now: Seconds of a clock.
        """
        with self._lock:
            if self._name is None or rows < MANY_ROWS or is_waiting or self._has_warned:
                self._busy_since = None
            elif self._busy_since is None:
                self._busy_since = now
            elif now - self._busy_since >= BUSY_S:
                self._has_warned = True
                self._say(WARNING.format(name=self._name))

    def _noting(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def parse(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                self._name = name
            return original(*args, **kwargs)

        return parse
