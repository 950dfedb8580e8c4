"""Whether a script makes progress: it takes rows, writes rows, or computes. Pure."""

from __future__ import annotations

BUSY = 0.05  # of one processor; a TensorFlow process that waits for others uses about a tenth of this
MOST_S = 5.0  # that count between two looks, which are a second apart: the host may have been asleep for an hour


class ProgressWatch:
    """Follows one script.

    Attributes:
        idle_s: For how many seconds the script has made no progress, as of the last look. Time since then does not count.
    """

    def __init__(self, now: float) -> None:
        self.idle_s = 0.0
        self._looked = now
        self._rows = 0
        self._cpu_s = 0.0
        self._has_ended = False

    def look(self, now: float, rows: int, cpu_s: float) -> None:
        """Compare with the last look.

        Args:
            rows: Rows that the script has taken or written so far.
        """
        passed_s = now - self._looked
        if rows != self._rows or cpu_s - self._cpu_s > BUSY * passed_s:
            self.idle_s = 0.0
        else:
            self.idle_s += min(passed_s, MOST_S)
        self._looked, self._rows, self._cpu_s = now, rows, cpu_s

    def end(self) -> None:
        """Note that the script has ended, which is progress once."""
        if not self._has_ended:
            self._has_ended, self.idle_s = True, 0.0
