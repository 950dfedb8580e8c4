"""The hook at each step of a training: it reports progress, and ends the training when a request to stop arrives."""

import logging
import time
from typing import Any, Callable, Mapping, Optional, Sequence

from akdl.runner.config import TaskConfig
from akdl.storage.checkpoint_folder import CheckpointFolder
from akdl.storage.files import FileError

REPORT_S = 1.0  # between two reports: each reads a loss from the device
LOOK_S = 1.0  # between two looks for a request to stop
REMOTE_LOOK_S = 10.0  # a look at a storage takes some 50 ms, in which the training waits

_MOST_STEPS = 10_000

logger = logging.getLogger(__name__)


class TrainingWatch:
    """Reports and requests to stop of one training; workers in step set `stop` at the same step.

    Where `looks`, this process looks for a request in `folder`. `total` sums numbers over all workers in step, and all of them
    call it; None where each process ends its training when it finds the request.
    """

    def __init__(
        self,
        task_config: Optional[TaskConfig],
        folder: Optional[CheckpointFolder],
        looks: bool = True,
        total: Optional[Callable[[Sequence[float]], Any]] = None,
    ) -> None:
        self._task_config, self._folder, self._looks, self._total = task_config, folder, looks, total
        self._look_s = REMOTE_LOOK_S if folder is not None and folder.is_remote else LOOK_S
        self._report_due = self._looked = time.monotonic()
        self._steps_to_look, self._steps_since_look = 1, 0
        self.total_steps: Optional[int] = None
        self.stop = False

    def step_end(self, step: int, metrics: Callable[[], Mapping[str, Any]]) -> None:
        """Report and look where it is due; `metrics` is called for a report only, as it reads from the device."""
        if self.is_report_due():
            self.report(step, metrics())
        self.look()

    def look(self) -> None:
        """Look for a request to stop when it is due; call it once after each step."""
        self._steps_since_look += 1
        if self._folder is not None and self._steps_since_look >= self._steps_to_look:
            self._look()

    def is_report_due(self) -> bool:
        return time.monotonic() >= self._report_due

    def report(self, step: int, metrics: Mapping[str, Any]) -> None:
        self._report_due = time.monotonic() + REPORT_S
        if self._task_config is not None:
            known = {} if self.total_steps is None else {"total_steps": self.total_steps}
            self._task_config.report(step, **{**metrics, **known})

    def _look(self) -> None:
        """Look for the request, and choose the step of the next look: the same step for all workers in step."""
        now = time.monotonic()
        found = self._is_stop_requested() if self._looks else False
        pace = (now - self._looked) / self._steps_since_look
        sums = [float(found), pace]
        if self._total is not None:
            sums = list(self._total(sums))
        # The sum of the paces makes looks of a group more frequent than necessary, never rarer.
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
        except FileError as error:  # not worth the end of a training
            logger.warning("cannot look for a request to stop: %s", error)
            return False
