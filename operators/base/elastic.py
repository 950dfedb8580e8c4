"""Elastic training: jobs of one table, one after the other, whose group takes the slots that there are.

Each number of workers is a job of its own, since Flink fixes the parallelism of a batch job. A job ends when a host is lost, or
is cancelled for more workers after a checkpoint; the next one continues from the checkpoint, with shares dealt again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from akdl.storage.checkpoint_folder import LAST, STOP, STOPPED, ask_to_stop, files_at
from akdl.storage.files import FileError
from bridge.exceptions import ConfigurationError
from bridge.host.console import tell
from bridge.interrupts import interrupts_later, waited_for
from bridge.table_env import parallelism_of
from operators.base.job import environment_of, needs_of, running
from operators.flink.rest import Rest, waits_for_slots
from operators.flink.slots import check_slots, free_slots, rest_of

if TYPE_CHECKING:
    from operators.base.operator import Operator

logger = logging.getLogger(__name__)

LOOK_S = 1.0
_GONE_S = 90.0  # Flink's heartbeat.timeout is 50 s, after which it forgets a TaskManager
_FREED_S = 10.0  # slots of a job that has just ended
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, FileError)
_Op = TypeVar("_Op", bound="Operator[Any]")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Elastic:
    """A group that trains with `least` to `most` workers; `resize` sets their number for the next job."""

    name: str
    least: int
    most: int
    servers: int
    wait_s: float
    checkpoint_dir: str
    resize: Callable[[int], None]

    def workers_in(self, slots: int | None) -> int:
        return self.most if slots is None else max(self.least, min(self.most, slots - self.servers))


def run(op: _Op, job: Callable[[], _Result]) -> _Result:
    """Run a job of the operator's table, and where a group is elastic the jobs that follow it."""
    with interrupts_later():
        if not op._elastic:
            with running(op):
                return job()
        if len(op._elastic) > 1:
            raise ConfigurationError("a job can have one training with a pair as numWorkers: run each in a job of its own")
        return _run_elastic(op, job, *next(iter(op._elastic.items())))


def _run_elastic(op: _Op, job: Callable[[], _Result], group: str, elastic: Elastic) -> _Result:
    table_env = environment_of(op.getOutputTable())
    config, rest = table_env.get_config(), rest_of(table_env.get_config())
    needs, was_stopped = needs_of(table_env, op._groups), STOPPED in files_at(elastic.checkpoint_dir)
    while True:
        waited_for(lambda: check_slots(config, needs))
        slots = free_slots(config)
        workers = elastic.workers_in(slots)
        elastic.resize(workers)
        op._shown[group] = replace(op._shown[group], size=workers + elastic.servers)
        if rest is None or slots is None:  # no TaskManager is lost or added without Flink
            with running(op):
                return job()
        tell(f"{elastic.name} trains with {workers} of {elastic.least} to {elastic.most} workers")
        watch = SlotWatch(rest, group, elastic, workers, parallelism_of(table_env))
        try:
            with watch, running(op):
                return job()
        except Exception as error:
            if not waited_for(watch.leads_to_another_job):
                raise
            logger.info("%s: the job ended: %s", elastic.name, error)
        if STOPPED in files_at(elastic.checkpoint_dir) and not was_stopped:
            ask_to_stop(elastic.checkpoint_dir)  # again: the chief of a new job takes it for the stop of an earlier training


class SlotWatch:
    """A thread that looks for lost and new slots while a job of `workers` runs, and cancels the job for another one."""

    def __init__(self, rest: Rest, group: str, elastic: Elastic, workers: int, parallelism: int) -> None:
        self._rest, self._group, self._elastic, self._workers = rest, group, elastic, workers
        self._slots = max(workers + elastic.servers, parallelism)
        self._fewest = max(elastic.least + elastic.servers, parallelism)
        self._total = int(rest.get("/overview")["slots-total"])
        self._managers = self._known()
        self._job = ""
        self._wanted = 0  # slots of the next job, once this one is cancelled
        self._change, self._since = "", 0.0
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
        """Cancel the job if slots are missing, or if more are free and a checkpoint has been written meanwhile."""
        overview = self._rest.get("/overview")
        free, total = int(overview["slots-available"]), int(overview["slots-total"])
        waits = self._waits()
        change = ""
        if waits and total < self._total:
            change = "fewer"
        elif waits is False and self._elastic.workers_in(free + self._slots) > self._workers:
            change = "more"
        if change != self._change:
            self._change, self._since, self._saved, self._has_saved = change, now, None, False
        if not change or now < self._since + self._elastic.wait_s:
            return
        if change == "fewer" or self._is_saved():
            left = self._slots + (free if change == "more" else total - self._total)
            self._wanted = max(self._fewest, left)
            self._rest.cancel(self._job)
            tell(f"{self._elastic.name}: {'slots are missing' if change == 'fewer' else 'more slots are free'}")
            self._over.set()

    def leads_to_another_job(self) -> bool:
        """Wait for the slots of the next job; False if this one has failed for another reason than a lost TaskManager."""
        try:
            if self._wanted:
                return self._wait_for(self._wanted, _FREED_S)
            if not self._has_lost_a_manager():
                return False
            tell(f"{self._elastic.name}: a TaskManager is lost; waiting up to {self._elastic.wait_s:g} s for its slots")
            return self._wait_for(self._slots, self._elastic.wait_s)
        except _UNREADABLE as error:  # the error of the job says more
            logger.info("the slots of the Flink cluster at %s are not known: %s", self._rest.address, error)
            return False

    def _run(self) -> None:
        while not self._over.wait(LOOK_S):
            try:
                self.look(time.monotonic())
            except _UNREADABLE as error:
                logger.debug("cannot look for slots: %s: %s", type(error).__name__, error)

    def _waits(self) -> bool | None:
        """True if a task of the job waits for a slot; None as long as the job is not there."""
        for job in self._rest.jobs_of({self._group}):
            if job["state"] == "RUNNING":
                self._job = job["jid"]
                return waits_for_slots(job)
        return None

    def _is_saved(self) -> bool:
        """True one look after a checkpoint has been written, which is complete by then."""
        found = files_at(self._elastic.checkpoint_dir)
        # TensorFlow names its last checkpoint in a file, once it is whole; summaries grow all the time.
        saved = found.get(LAST) or frozenset(each for each in found.items() if "tfevents" not in each[0])
        if STOP in found or STOPPED in found or self._saved is None:
            self._saved = saved
            return False
        had_saved, self._has_saved = self._has_saved, self._has_saved or saved != self._saved
        return had_saved

    def _has_lost_a_manager(self) -> bool:
        deadline = time.monotonic() + _GONE_S
        while time.monotonic() < deadline:
            if not self._managers <= self._known():
                return True
            if all(map(self._answers, sorted(self._managers))):
                return False
            time.sleep(LOOK_S)
        return False

    def _known(self) -> frozenset[str]:
        return frozenset(str(each["id"]) for each in self._rest.get("/taskmanagers")["taskmanagers"])

    def _answers(self, manager: str) -> bool:
        try:
            self._rest.get(f"/taskmanagers/{manager}/logs")
        except (OSError, ValueError):
            return False
        return True

    def _wait_for(self, slots: int, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while (free := int(self._rest.get("/overview")["slots-available"])) < slots and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        return free >= self._fewest
