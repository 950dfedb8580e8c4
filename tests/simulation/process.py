"""A script's process in the place of a real one: akdl's own code on its side of the channel, and a
script that a test gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Optional

from akdl import entry
from akdl.process.channel import Channel, ChannelError
from akdl.process.parent import REFUSED_ROWS
from akdl.runner.config import BatchTaskConfig, Reports, StreamTaskConfig
from akdl.runner.cuts import Cuts
from akdl.runner.output_writer import OutputWriter
from akdl.wire import WORKING, Chunk, Hello, Outcome, Rows, Shares, Success, Task, Wishes
from akdl.wire.service import PROTOCOL
from bridge.exceptions import TaskError
from bridge.group.addresses import label
from bridge.member import bridge_server
from bridge.member.script_process import paragraphs, task_of
from bridge.member.session import Session
from bridge.settings import GroupSettings
from tests.simulation.scripts import ids_of
from tests.simulation.threads import Condition
from tests.simulation.world import here

SIGKILL = -9
TOKEN = "token"


class Context:
    """`tf_context`, without TensorFlow."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows


class Child:
    """`ChildProcess`: its tasks, its exit status and its use of the processor."""

    def __init__(
        self,
        index: int,
        address: str,
        attempt: int,
        task: Task,
        main: Any,
        on_exit: Callable[[], None],
    ) -> None:
        world = here()
        self.index, self._on_exit = index, on_exit
        parent = world.running.process
        self.process = world.process(f"script {index}.{attempt}", parent.host)
        self.process.child = self  # type: ignore[attr-defined]  # for its clock
        self.exit_status: Optional[int] = None
        self.last_lines: list[str] = []
        self.pid = len(world.processes)
        self.memory_bytes = 0
        self.activity = "sleeps"  # or "works" or "spins"
        self.is_in_main = self.is_aborted = False
        self.steps: Any = None
        self._since = world.now
        self._cpu_s = self.worked_s = 0.0
        self._waiting: list[Any] = []
        # the pipe closes
        parent.on_death.append(lambda: world.after(world.random.random(), self.kill))
        world.spawn(lambda: self._run(address, attempt, task, main), self.process, "script")

    def do(self, activity: str, seconds: float = 0.0) -> None:
        """Be busy, or wait; a script stays so until the next call."""
        self._count()
        self.activity = activity
        if seconds:
            here().sleep(seconds)

    def _count(self) -> None:
        passed, self._since = here().now - self._since, here().now
        if self.activity != "sleeps" and self.exit_status is None:
            self._cpu_s += passed
            self.worked_s += passed * (self.activity == "works")

    @property
    def cpu_times(self) -> tuple[float, float]:
        self._count()
        return self._cpu_s, 0.0

    def look(self) -> float:
        self._count()
        return self.worked_s

    def abort_collectives(self, returned: str) -> bool:
        self.is_aborted = True
        if self.steps is not None:
            self.steps.notify()
        return True

    def kill(self, status: int = SIGKILL) -> None:
        if self.exit_status is None:
            self._count()
            self.exit_status = status
            here().after(0.0, self._reap)
            self.process.kill()

    def place_of_abort(self) -> str:
        self.kill(-6)
        return ""

    def _reap(self) -> None:
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            task.wake()
        self._on_exit()

    def wait(self, timeout_s: float) -> bool:
        world = here()
        end = world.now + timeout_s
        while self.exit_status is None and world.now < end:
            self._waiting.append(world.running)
            world.park(end - world.now)
        return self.exit_status is not None

    def stop(self, patience_s: float) -> None:
        if not self.wait(patience_s):
            self.kill(-15)

    def _run(self, address: str, attempt: int, task: Task, main: Any) -> None:
        try:
            status = self._run_task(address, attempt, task, main)
        except ChannelError as error:
            self.last_lines.append(str(error))
            status = entry.ORPHANED
        here().sleep(here().random.random() * 0.1)  # the end of an interpreter
        self.kill(status)

    def _run_task(self, address: str, attempt: int, task: Task, main: Any) -> int:
        """Do as `akdl.entry._run_task`, without imports of scripts, folders and signals."""
        channel = _Recording(address, TOKEN)
        fault = here().job.plan.fault  # type: ignore[attr-defined]
        if fault.kind == "late" and fault.index == self.index:
            here().job.blame_late(self.index)  # type: ignore[attr-defined]
            here().park()
        here().sleep(here().random.random() * here().job.plan.boot_s)  # type: ignore[attr-defined]
        channel.connect(Hello(pid=self.pid, attempt=attempt, protocol=PROTOCOL))
        rows = entry._rows_of(task, "", channel)
        writer = OutputWriter(channel, task.output_columns, task.chunk_wait_ms / 1000 or None)
        cuts = entry.cuts_of(task, channel.wait_for_cluster(), rows, writer)
        reports = Reports()
        over = entry._report_progress(channel, rows, reports, _Watch())  # type: ignore[arg-type]
        failure = None
        self.is_in_main = True
        try:
            main(self._task_config(task, rows, writer, cuts, reports), self)
            if cuts is not None:
                cuts.end()
            self.is_in_main = False
            writer.close()
        except ChannelError:
            raise
        except Exception as error:
            failure = entry.described(error, task)
        self.is_in_main = False
        over.set()
        if failure is not None:
            channel.finish(Outcome(failure=failure))
            return 1
        channel.finish(
            Outcome(
                success=Success(
                    rows_read=rows.progress().rows_read, rows_written=writer.rows_written
                )
            )
        )
        return REFUSED_ROWS if writer.has_refused else 0

    def _task_config(
        self, task: Task, rows: Any, writer: OutputWriter, cuts: Optional[Cuts], reports: Reports
    ) -> Any:
        common: dict[str, Any] = {
            "tf_context": Context(rows), "num_workers": task.num_workers, "cluster": {}, "task_type": "", "task_index": self.index,
            "work_dir": "", "user_params": {}, "reports": reports,
        }  # fmt: skip
        if task.kind == "stream":
            return StreamTaskConfig(output_writer=writer, rows=rows, cuts=cuts, **common)
        return BatchTaskConfig(output_writer=writer, **common)


class _Watch:
    """`ActivityWatch`, which looks at real threads."""

    now = (WORKING, "")


class _Recording(Channel):
    """The channel, and a note of the rows that arrive."""

    def read(self) -> Iterator[Chunk]:
        for chunk in super().read():
            if chunk.columns:
                here().job.history.received.update(ids_of(Rows.FromString(chunk.columns)))  # type: ignore[attr-defined]
            yield chunk


class SimulatedProcess:
    """`ScriptProcess`, with the real server of the channel."""

    def __init__(
        self, settings: GroupSettings, group: str, index: int, attempt: int, changed: Condition
    ) -> None:
        self.settings, self.group, self.index, self._attempt, self.changed = (
            settings,
            group,
            index,
            attempt,
            changed,
        )
        self.label = label(index, settings.num_workers)
        self.name = f"{settings.operator}, {self.label}"
        self.folder = self.private_folder = ""
        self.child: Any = None
        self._server: Any = None
        self._worker = here().running.process

    def start(
        self,
        session: Session,
        shares: Callable[[], Shares | None],
        wishes: Callable[[], Wishes],
        note_line: object,
    ) -> None:
        settings, job = self.settings, here().job  # type: ignore[attr-defined]
        task = task_of(settings, SimpleNamespace(path=job.folder))  # type: ignore[arg-type]
        self._server = bridge_server.BridgeServer(
            session, self.changed, shares, wishes, task, TOKEN, f"child-{len(here().processes)}"
        )
        self._server.start()
        main = job.script_of(self.index, self._attempt)
        self.child = Child(
            self.index, self._server.address, self._attempt, task, main, self._on_exit
        )
        job.started(self.index, self.child)

    def prepare_next(self) -> None:
        """Start no process for a further script."""

    def stop(self, grace_s: float) -> None:
        if self.child is not None:
            self.child.stop(grace_s)

    def close(self) -> None:
        self.stop(0.0)
        if self._server is not None:
            self._server.stop()

    @property
    def resources(self) -> tuple[float, int]:
        return 0.0, 0

    def lines_before(self) -> str:
        return ""

    def stacks(self) -> str:
        return f"--- where {self.label} stands ---"

    def log(self, line: str) -> None:
        """Nobody reads it."""

    def error(self, what: str, *details: str) -> TaskError:
        return TaskError(paragraphs(f"{self.name} (script.py): {what}", *details))

    def _on_exit(self) -> None:
        # By a thread of the worker, as it takes the lock.
        world = here()
        if not self._worker.is_dead:
            world.spawn(self._notify, self._worker, "reap")

    def _notify(self) -> None:
        with self.changed:
            self.changed.notify_all()
