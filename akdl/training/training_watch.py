"""The hook at each step of a training: it reports progress, and obeys requests to stop.

The loops of Keras and of Estimators call a `TrainingWatch` after each step. A step may take
microseconds, so nearly all calls only compare a number or the time.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Callable, Mapping, Sequence

from akdl.runner.config import TaskConfig
from akdl.storage.files import FileError
from akdl.storage.training_folders import CheckpointFolder

# Seconds between two reports. A report reads a loss from the device, which waits for the step to
# end.
REPORT_S = 1.0
# Seconds between two looks for a request to stop.
LOOK_S = 1.0
# A look at a remote storage takes some 50 ms, in which the training waits, so looks are rarer
# there.
REMOTE_LOOK_S = 10.0

# Steps between two looks at most, because later steps may be much slower than the ones that the
# number is computed from.
_MOST_STEPS = 10_000

logger = logging.getLogger(__name__)

Report = Callable[[str], None]
"""Takes a line about the progress of a training, for the user."""


class TrainingWatch:
    """Reports and requests to stop of one training; workers in step set `stop` at the same step.

    The thread that trains calls all methods. The caller reads `stop` after each step and ends the
    training itself, since only the caller can end it with a checkpoint.

    Args:
        task_config: Receives the reports; None outside of an operator.
        folder: The folder where a file may request a stop; None for no requests.
        looks: This process looks for the request. In a group the chief does, because a look costs
            time.
        total: Sums numbers over all workers in step, which all have to call it; None if each
            process ends its training when it finds the request.
    """

    def __init__(
        self,
        task_config: TaskConfig | None,
        folder: CheckpointFolder | None,
        looks: bool = True,
        total: Callable[[Sequence[float]], Any] | None = None,
    ) -> None:
        self._task_config = task_config
        self._folder = folder
        self._looks = looks
        self._total = total
        self._look_s = REMOTE_LOOK_S if folder is not None and folder.is_remote else LOOK_S
        self._report_due = self._looked = time.monotonic()
        # The pace is known only after the first step, so the first look comes then.
        self._steps_to_look, self._steps_since_look = 1, 0
        self.total_steps: int | None = None
        self.stop = False

    def step_end(self, step: int, metrics: Callable[[], Mapping[str, Any]]) -> None:
        """Report and look where it is due.

        `metrics` is called for a report only, as it reads from the device.
        """
        if self.is_report_due():
            self.report(step, metrics())
        self.look()

    def look(self) -> None:
        """Look for a request to stop when it is due; call it once after each step."""
        self._steps_since_look += 1
        if self._folder is not None and self._steps_since_look >= self._steps_to_look:
            self._look()

    def is_report_due(self) -> bool:
        """Test for the time of the next report, for callers that read metrics in advance."""
        return time.monotonic() >= self._report_due

    def report(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Report at once, and start the time to the next report."""
        self._report_due = time.monotonic() + REPORT_S
        if self._task_config is not None:
            known = {} if self.total_steps is None else {"total_steps": self.total_steps}
            self._task_config.report(step, **{**metrics, **known})

    def _look(self) -> None:
        """Look for the request, and choose the step of the next look.

        Workers in step take part in a sum here, so all of them must choose the same step. They
        choose it from summed values alone: their clocks differ.
        """
        now = time.monotonic()
        found = self._is_stop_requested() if self._looks else False
        pace = (now - self._looked) / self._steps_since_look
        # One sum carries both numbers, as each sum over the group makes all workers wait for each
        # other.
        sums = [float(found), pace]
        if self._total is not None:
            sums = list(self._total(sums))
        # The sum of the paces is more than the pace of any worker, so a group looks more often than
        # necessary, never less often.
        self._steps_to_look = int(min(_MOST_STEPS, max(1.0, self._look_s / max(sums[1], 1e-9))))
        self._looked, self._steps_since_look = now, 0
        if sums[0] and not self.stop:
            self.stop = True
            logger.info("asked to stop: the training ends at this step")
            if self._looks and self._folder is not None:
                self._folder.note_stop()

    def _is_stop_requested(self) -> bool:
        assert self._folder is not None
        try:
            return self._folder.is_asked_to_stop()
        # A storage that does not answer is not worth the end of a training; the next look may
        # succeed.
        except FileError as error:
            logger.warning("cannot look for a request to stop: %s", error)
            return False
