"""Elastic training: jobs of one table, one after the other, with changing numbers of workers.

The group takes the slots that there are. Each number of workers is a job of its own, since Flink
fixes the parallelism of a batch job. A job ends when a host is lost, or is cancelled for more
workers after a checkpoint. The next one continues from the checkpoint, with shares distributed
again.

Flink's adaptive scheduler was tried first. It takes no batch jobs, and in a streaming job rows went
to members that did not exist, see docs/design/training.md.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from akdl.storage.files import FileError
from akdl.storage.training_folders import LAST, STOP, STOPPED, ask_to_stop, files_at
from bridge.exceptions import ConfigurationError
from bridge.host.console import tell
from bridge.interrupts import interrupts_later, waited_for
from bridge.table_env import parallelism_of
from operators.base.job import Elastic, JobTable, needs_of, running
from operators.flink.rest import Rest, waits_for_slots
from operators.flink.slots import check_slots, free_slots, rest_of

logger = logging.getLogger(__name__)

# A look asks the cluster for its slots and its job, so it is made only once a second.
LOOK_S = 1.0
# Flink forgets a TaskManager after `heartbeat.timeout`, 50 s by default. A job that failed because
# of a lost host may end before that, so the check has to wait longer.
_GONE_S = 90.0
# Slots of a job that has just ended are not free at once.
_FREED_S = 10.0
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, FileError)
_Result = TypeVar("_Result")


def run(op: JobTable, job: Callable[[], _Result]) -> _Result:
    """Run a job of the operator's table, and where a group is elastic the jobs that follow it.

    Args:
        op: The operator whose table the job computes.
        job: Starts the job and waits for it; called once for each job.

    Raises:
        ConfigurationError: Two groups of the job are elastic: the free slots could be divided in
            many ways.
    """
    with interrupts_later():
        if not op._elastic:
            with running(op):
                return job()
        if len(op._elastic) > 1:
            raise ConfigurationError(
                "a job can have one training with a pair as numWorkers: run each in a job of"
                " its own"
            )
        return _run_elastic(op, job, *next(iter(op._elastic.items())))


def _run_elastic(op: JobTable, job: Callable[[], _Result], group: str, elastic: Elastic) -> _Result:
    """Run jobs until one succeeds, or fails for another reason than slots."""
    table_env = op._table_env
    config = table_env.get_config()
    rest = rest_of(config)
    needs = needs_of(table_env, op._groups)
    # An earlier training may have left such a file.
    stopped = files_at(elastic.checkpoint_dir).get(STOPPED)
    while True:
        waited_for(lambda: check_slots(config, needs))
        slots = free_slots(config)
        workers = elastic.workers_in(slots)
        elastic.resize(workers)
        # The progress display counts the processes of this job.
        op._shown[group] = op._shown[group]._replace(size=workers + elastic.servers)
        # Without REST there is no cluster whose TaskManagers could be lost or added, and a cluster
        # that makes slots on demand has always enough. One job with a fixed size is then all that
        # is needed.
        if rest is None or slots is None:
            with running(op):
                return job()
        tell(f"{elastic.name} trains with {workers} of {elastic.least} to {elastic.most} workers")
        watch = SlotWatch(rest, group, elastic, workers, parallelism_of(table_env))
        try:
            with watch, running(op):
                return job()
        except Exception as error:
            # The question may take minutes, so it runs in another thread, and Ctrl-C ends it.
            if not waited_for(watch.leads_to_another_job):
                raise
            logger.info("%s: the job ended: %s", elastic.name, error)
        if files_at(elastic.checkpoint_dir).get(STOPPED) not in (None, stopped):
            # The user's request arrived while the earlier job ended. The chief of the new job would
            # take the old file for the stop of an earlier training and go on, so the request is
            # made again.
            ask_to_stop(elastic.checkpoint_dir)


class SlotWatch:
    """A thread that looks for lost and new slots while a job of `workers` runs.

    It cancels the job for another one. It lives as long as one job, as a context manager around it.
    `look` runs in its own thread. `leads_to_another_job` is called from the user's thread after the
    block, when that thread has ended, so the two share no state at the same time and need no lock.
    """

    def __init__(
        self, rest: Rest, group: str, elastic: Elastic, workers: int, parallelism: int
    ) -> None:
        self._rest = rest
        self._group = group
        self._elastic = elastic
        self._workers = workers
        # Operators share slots, so a job takes as many as the larger of its group and its
        # parallelism.
        self._slots = max(workers + elastic.servers, parallelism)
        self._fewest = max(elastic.least + elastic.servers, parallelism)
        overview = rest.get("/overview")
        self._total = int(overview["slots-total"])
        # Other jobs of the cluster hold these slots.
        self._others = self._total - int(overview["slots-available"])
        self._managers = self._known()
        self._job = ""
        # Number of slots for the next job, once this one was cancelled for it; 0 if it was
        # not.
        self._wanted = 0
        self._change = ""
        self._since = 0.0
        self._saved: object = None
        self._has_saved = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="akdl-elastic", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def look(self, now: float) -> None:
        """Cancel the job if slots are missing, or if more are free and a checkpoint is new.

        A change has to last for `elasticWait`, because a TaskManager that restarts is missing for
        seconds only, and each new job repeats the steps since the last checkpoint.
        """
        overview = self._rest.get("/overview")
        free = int(overview["slots-available"])
        total = int(overview["slots-total"])
        waits = self._waits()
        change = ""
        left = total - self._others
        # A job that has lost a TaskManager and was restarted by Flink waits for its slots. If the
        # smallest group does not fit either, it waits until Flink gives it up with an error that
        # has the reason, which a cancelled job lacks.
        if waits and total < self._total and left >= self._fewest:
            change = "fewer"
        # None means that the job does not run yet. It may not have its slots then, and `free` would
        # count them twice.
        elif waits is False and self._elastic.workers_in(free + self._slots) > self._workers:
            change = "more"
        # A change that went away and came back has to last for the whole time again.
        if change != self._change:
            self._change = change
            self._since = now
            self._saved = None
            self._has_saved = False
        if not change or now < self._since + self._elastic.wait_s:
            return
        # A job that waits makes no progress and loses nothing. One that runs is cancelled only
        # after a checkpoint, so that few steps are repeated.
        if change == "fewer" or self._is_saved():
            self._wanted = self._slots + free if change == "more" else left
            self._rest.cancel(self._job)
            tell(
                f"{self._elastic.name}:"
                f" {'slots are missing' if change == 'fewer' else 'more slots are free'}"
            )
            self._over.set()

    def leads_to_another_job(self) -> bool:
        """Wait for the slots of the next job; False if this one has failed for another reason than
        a lost TaskManager.
        """
        try:
            if self._wanted:
                return self._wait_for(self._wanted, _FREED_S)
            if not self._has_lost_a_manager():
                return False
            tell(
                f"{self._elastic.name}: a TaskManager is lost; waiting up to"
                f" {self._elastic.wait_s:g} s for its slots"
            )
            return self._wait_for(self._slots, self._elastic.wait_s)
        # The job's own error is raised then, which says more than this one.
        except _UNREADABLE as error:
            logger.info(
                "the slots of the Flink cluster at %s are not known: %s", self._rest.address, error
            )
            return False

    def _run(self) -> None:
        while not self._over.wait(LOOK_S):
            try:
                self.look(time.monotonic())
            except _UNREADABLE as error:
                logger.debug("cannot look for slots: %s: %s", type(error).__name__, error)

    def _waits(self) -> bool | None:
        """Return True if a task of the job waits for a slot; None if the job is not running yet."""
        # Other jobs of the cluster need not be asked again at each look.
        for job in (
            [self._rest.get(f"/jobs/{self._job}")]
            if self._job
            else self._rest.jobs_of({self._group})
        ):
            if job["state"] == "RUNNING":
                self._job = job["jid"]
                return waits_for_slots(job)
        return None

    def _is_saved(self) -> bool:
        """Return True on the second look at which the folder has a newer checkpoint.

        The first look may have found files that are still being written.
        """
        found = files_at(self._elastic.checkpoint_dir)
        # TensorFlow names its last checkpoint in a file, once it is whole; summaries grow all the
        # time.
        saved = found.get(LAST) or frozenset(
            each for each in found.items() if "tfevents" not in each[0]
        )
        # A training that the user has asked to stop ends soon, so no other job follows it.
        if STOP in found or STOPPED in found or self._saved is None:
            self._saved = saved
            return False
        had_saved = self._has_saved
        self._has_saved = self._has_saved or saved != self._saved
        return had_saved

    def _has_lost_a_manager(self) -> bool:
        """Return True once Flink no longer lists a TaskManager that the job had.

        The answer is False if all of them answer. A TaskManager that neither answers nor is
        forgotten yet leaves the question open, until `_GONE_S` has passed.
        """
        deadline = time.monotonic() + _GONE_S
        while time.monotonic() < deadline:
            if not self._managers <= self._known():
                return True
            if all(map(self._answers, sorted(self._managers))):
                return False
            time.sleep(LOOK_S)
        return False

    def _known(self) -> frozenset[str]:
        return frozenset(
            str(each["id"]) for each in self._rest.get("/taskmanagers")["taskmanagers"]
        )

    def _answers(self, manager: str) -> bool:
        try:
            self._rest.get(f"/taskmanagers/{manager}/logs")
        except (OSError, ValueError):
            return False
        return True

    def _wait_for(self, slots: int, seconds: float) -> bool:
        """Wait for `slots` free slots, at most `seconds`.

        The result is True if the smallest group fits then.
        """
        deadline = time.monotonic() + seconds
        while (
            free := int(self._rest.get("/overview")["slots-available"])
        ) < slots and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        return free >= self._fewest
