"""What a seed decides: a job, its scripts, and what happens to it."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional

from bridge.schema import Schema
from bridge.settings import DRAIN, DROP, OFF, PAD, RESTART, UNCOMMITTED, UNTAKEN, GroupSettings
from tests.simulation import learning, scripts
from tests.simulation.attempt import PARTITIONS, Shape
from tests.simulation.history import BrokenPromise, History, check_rows
from tests.simulation.installed import installed
from tests.simulation.job import Job
from tests.simulation.learning import Learner, Learning, check_states
from tests.simulation.network import Network
from tests.simulation.scripts import named
from tests.simulation.world import here, world_of

STALL_S, START_S, SETTLED_S = 10.0, 8.0, 2.0
SCHEMA = Schema.parse("id BIGINT NOT NULL")
NONE, KILLED, RAISES, HANGS, RETURNS, CUT, LATE = (
    "none",
    "killed",
    "raises",
    "hangs",
    "returns",
    "cut",
    "late",
)


@dataclass
class Fault:
    """What goes wrong in a group that runs once, and who is to blame."""

    kind: str
    index: int
    step: int = 0
    hangs_as: str = "sleeps"
    others_work_s: float = 0.0  # so that the culprit has stood still for longer
    has_struck: bool = False

    def strikes(self, job: Any, child: Any, made: int) -> None:
        """Let the script of the culprit do what it does in this step."""
        if child.index != self.index or made != self.step or job.attempt.number or self.has_struck:
            return
        name = named(job, self.index)
        if self.kind == KILLED:
            self.has_struck = True
            job.blame(rf"{name} \(script\.py\): the process killed by signal 9")
            child.kill()
        elif self.kind == RAISES:
            self.has_struck = True
            job.blame(rf"{name} \(script\.py\): the script failed: ValueError: planted")
            raise ValueError("planted")
        elif self.kind == HANGS:
            self.has_struck = True
            job.blame(
                rf"{name} \(script\.py\): no process .* this script lags behind",
                rf"and {name} lags behind",
            )
            child.do(self.hangs_as)
            here().park()
        elif self.kind == CUT:
            self.has_struck = True
            job.blame(*_missed(job, self.index))
            job.network.cut.add(f"host-{self.index}")
            job.world.after(50.0, lambda: job.lost(self.index))
            here().park()

    def returns(self, job: Any, child: Any, made: int) -> bool:
        if (
            self.kind != RETURNS
            or child.index != self.index
            or made != self.step
            or job.attempt.number
        ):
            return False
        self.has_struck = True
        name = named(job, self.index)
        # Two lost calls in a row take longer than an error of TensorFlow is held back: its member
        # does not know of the end.
        unknown = [rf"(?s)a peer has gone.*{name} on host-\d: (?!ended)"] if job.plan.loss else []
        job.blame(rf"the script had returned in .*{name}", *unknown)
        return True


@dataclass
class Plan:
    """One schedule."""

    seed: int
    shapes: list[Shape]
    rows: int  # of each partition that has any
    script: Callable[[Any, int], Any]
    commits: bool = False
    repeats_output: bool = False  # the script commits less than it has written
    partitions: int = PARTITIONS  # that have rows
    start_s: float = 1.0  # until the last address and the first rows are sent
    boot_s: float = 0.5  # until a process has started
    pace_s: float = 0.2
    quiet_s: float = 0.0  # in which the source has no rows, after its first ones
    checkpoint_s: float = 0.0
    restarts: int = 0
    accidents: list[tuple[float, str, int]] = field(default_factory=list)
    fault: Fault = field(default_factory=lambda: Fault(NONE, 0))
    in_step: bool = False
    learning: Optional[Learning] = None  # the script keeps a state
    longest_s: float = 0.0  # until output has left, where that is bounded
    kill: tuple[str, int] = ("", 0)  # the script or its worker, at a message
    loss: float = 0.0
    repeats: float = 0.0
    slowest_s: float = 0.02
    limit_s: float = 300.0


def settings_of(**changes: Any) -> GroupSettings:
    common: dict[str, Any] = {
        "operator": "TestOp", "kind": "stream", "num_workers": 1, "num_ps": 0, "input_schema": SCHEMA, "output_schema": SCHEMA,
        "main_script": "script.py", "user_files": (), "token": "secret", "chunk_wait_s": 0.25, "start_timeout_s": 60.0,
        "stall_timeout_s": 120.0,
    }  # fmt: skip
    return GroupSettings(**{**common, **changes})


def stream_plan(seed: int) -> Plan:
    """A stream with checkpoints, restarts, and continuations with other numbers of tasks."""
    draw = random.Random(f"stream {seed}")
    commits = draw.random() < 0.7
    style = draw.choice([scripts.EACH, scripts.PARTS, scripts.PLAIN])
    lag = 0 if not commits or style == scripts.PLAIN else draw.choice([0, 0, 1, 3])
    returns_after = draw.choice([0, 0, 0, 2, 4]) if commits and style != scripts.PLAIN else 0
    carries_time = draw.random() < 0.3 and not returns_after
    output = Schema.parse("id BIGINT NOT NULL")
    common: dict[str, Any] = {
        "replay": UNCOMMITTED if commits else UNTAKEN,
        "queue_bytes": draw.choice([64, 400, 16 << 20]),
        # The script has to commit before it asks for more rows, or it gets none.
        "max_uncommitted": draw.choice([1, 1500, 256 << 20])
        if lag == 0 and style != scripts.PLAIN
        else 256 << 20,
        "output_schema": output,
    }
    if returns_after:
        common["on_return"] = RESTART
    if carries_time:
        common["watermark"] = ("id", "SOURCE_WATERMARK()")
    rows, start_s, pace_s = (
        draw.choice([3, 6, 10]),
        draw.choice([0.1, 2.0]),
        draw.choice([0.05, 0.5, 2.0]),
    )
    lasts_s = start_s + 2.0 + rows * pace_s  # about; each accident adds some seconds
    accidents: list[tuple[float, str, int]] = []
    kinds = ["kill script", "kill script", "kill worker", "stop", "stop", "stop", "cut"]
    for _ in range(draw.choice([0, 1, 2, 2, 3, 4])):
        lasts_s += 2.0
        accidents.append((draw.uniform(0.3, lasts_s), draw.choice(kinds), draw.randrange(4)))
    stops = sum(kind == "stop" for _, kind, _ in accidents)
    shapes = []
    for _ in range(1 + stops):
        if shapes and draw.random() < 0.3:
            shapes.append(shapes[-1])
            continue
        settings = settings_of(num_workers=draw.choice([1, 1, 2, 3]), num_ps=0, **common)
        shapes.append(Shape(settings, draw.choice([1, 2, 3]), draw.random() < 0.5))
    work_s = draw.choice([0.02, 0.3, 2.0])
    servers = random.Random(f"servers {seed}")
    if servers.random() < 0.15:
        # so that rows are in flight where the numbers change
        work_s = servers.choice([work_s, 2.0])
        shapes = [
            dataclasses.replace(
                each, settings=dataclasses.replace(each.settings, num_ps=servers.choice([0, 1, 1]))
            )
            for each in shapes
        ]
    loss = draw.choice([0.0, 0.05, 0.3])
    is_calm = not loss and not any(what == "cut" for _, what, _ in accidents)
    if is_calm and (draw.random() < 0.5 or returns_after):
        # The limit of a start, which is no limit for scripts that start again later.
        shapes = [
            dataclasses.replace(
                each, settings=dataclasses.replace(each.settings, start_timeout_s=6.0)
            )
            for each in shapes
        ]
    fault = Fault(NONE, 0)
    hang = random.Random(f"hang {seed}")  # apart, so that the other seeds keep their schedules
    if hang.random() < 0.1:
        accidents, shapes = (
            [],
            [dataclasses.replace(shapes[0], settings=stalling(shapes[0].settings))],
        )
        fault = Fault(
            HANGS,
            hang.randrange(shapes[0].settings.num_workers),
            hang.randrange(3),
            hang.choice(["sleeps", "spins"]),
        )
    is_quiet = hang.random() < 0.04 and fault.kind == NONE
    if is_quiet:
        shapes = [dataclasses.replace(each, settings=stalling(each.settings)) for each in shapes]

    def script(job: Any, index: int) -> Any:
        if index >= job.settings.num_workers:
            return scripts.Serving(job, index)
        return scripts.Stream(job, index, style, lag, work_s, returns_after)

    return Plan(
        seed, shapes, rows, script,
        commits=commits, repeats_output=commits and style == scripts.PLAIN, start_s=start_s, pace_s=pace_s, quiet_s=1.3 * STALL_S if is_quiet else 0.0, fault=fault,
        checkpoint_s=draw.choice([0.3, 1.0, 4.0]), restarts=100, accidents=accidents, loss=loss,
        repeats=draw.choice([0.0, 0.2]), slowest_s=draw.choice([0.02, 1.0]),
        boot_s=draw.choice([0.5, 3.0]),
    )  # fmt: skip


def stalling(settings: GroupSettings) -> GroupSettings:
    return dataclasses.replace(settings, stall_timeout_s=STALL_S)


def group_plan(seed: int) -> Plan:
    """A bounded table through a group, once or with a restart from its first row."""
    draw = random.Random(f"group {seed}")
    workers = draw.choice([1, 2, 2, 3, 4])
    servers = draw.choice([0, 0, 0, 1])
    in_step = workers > 1 and draw.random() < 0.6
    rows = draw.choice([0, 1, 2, 4])
    equal = draw.choice([PAD, DROP]) if in_step else draw.choice([OFF, OFF, PAD])
    kinds = [NONE, NONE, KILLED, RAISES]
    if workers + servers > 1:
        kinds += [CUT, LATE]
    if workers == 1 or in_step:
        kinds += [HANGS, HANGS]
    if in_step:
        kinds += [RETURNS]
    kind = draw.choice(kinds)
    hang = random.Random(f"hang {seed}")  # apart, so that the other seeds keep their schedules
    if kind == NONE and not in_step and workers > 1 and hang.random() < 0.3:
        kind = HANGS
    if kind in (HANGS, RETURNS, KILLED, RAISES, CUT):
        rows = 4  # so each worker has a step in which it strikes
        equal = PAD if in_step else equal
    fault = Fault(
        kind,
        draw.randrange(workers),
        draw.randrange(3 if kind != RETURNS else 2),
        draw.choice(["sleeps", "spins"]),
    )
    if kind == RETURNS:
        fault.step += 1
    waits_as = (
        ["sleeps", "spins"][seed % 2]
        if fault.hangs_as == "spins"
        else draw.choice(["sleeps", "spins"])
    )
    # if one of two spins, it counts as the one that hangs
    if workers == 2 and fault.hangs_as == "sleeps":
        waits_as = "sleeps"
    if kind == HANGS and waits_as == fault.hangs_as:
        fault.others_work_s = 12.0  # even if its process starts last, and gets its rows last
    settings = settings_of(
        kind="batch", num_workers=workers, num_ps=servers, read_once=True, equal_steps=equal,
        weight_column="w" if equal == PAD else None, queue_bytes=draw.choice([64, 16 << 20]),
        stall_timeout_s=STALL_S if kind == HANGS else 120.0, start_timeout_s={LATE: START_S, CUT: 20.0}.get(kind, 60.0),
    )  # fmt: skip

    def script(job: Any, index: int) -> Any:
        if index >= workers:
            return scripts.Serving(job, index)
        return scripts.Training(job, index, waits_as, 0)

    # Where only times tell who is to blame, reports have to arrive.
    lossy = kind not in (CUT, LATE) and not fault.others_work_s
    return Plan(
        seed, [Shape(settings, draw.choice([1, 2, 3]), kind != CUT and draw.random() < 0.3)], rows, script, in_step=in_step,
        fault=fault, restarts=draw.choice([0, 1]), loss=draw.choice([0.0, 0.05, 0.2]) if lossy else 0.0,
        repeats=draw.choice([0.0, 0.2]), slowest_s=draw.choice([0.02, 1.0]) if lossy else 0.02,
        boot_s=draw.choice([0.5, 3.0]), partitions=draw.choice([1, PARTITIONS]) if kind == NONE else PARTITIONS,
    )  # fmt: skip


def learn_plan(seed: int) -> Plan:
    """A script that keeps a state, in a job that restarts, and that continues with other operators
    around it.
    """
    draw = random.Random(f"learn {seed}")
    work_s, save_s, every_s, slowest_s = (
        draw.choice([0.02, 0.3]),
        draw.choice([0.0, 0.1, 1.0]),
        draw.choice([0.3, 1.0, 4.0]),
        draw.choice([0.02, 1.0]),
    )
    batch, returns_after, partitions = (
        draw.choice([0, 1, 2, 3]),
        draw.choice([0, 0, 0, 2]),
        draw.choice([1, 2, PARTITIONS]),
    )
    is_quiet = draw.random() < 0.1
    if is_quiet and not returns_after:
        every_s = draw.choice([every_s, 1.2 * STALL_S])
    how = Learning(
        batch,
        draw.choice([None, None, 1, 3, 5]),
        work_s,
        save_s,
        0.0 if is_quiet else draw.choice([0.0, 0.0, 0.3]),
        returns_after,
    )
    settings = settings_of(
        output_schema=learning.SCHEMA, save_every_s=every_s, on_return=RESTART if returns_after else DRAIN,
        queue_bytes=draw.choice([64, 400, 16 << 20]), max_uncommitted=draw.choice([1, 60, 256 << 20, 256 << 20]),
        watermark=draw.choice([None, None, None if returns_after else ("id", "SOURCE_WATERMARK()")]),
    )  # fmt: skip
    rows, start_s, pace_s = (
        draw.choice([3, 6, 10]),
        draw.choice([0.1, 2.0]),
        draw.choice([0.05, 0.5, 2.0]),
    )
    accidents: list[tuple[float, str, int]] = []
    for _ in range(0 if is_quiet else draw.choice([0, 1, 2, 3, 4])):
        lasts_s = start_s + 2.0 + rows * pace_s + 2.0 * len(accidents)
        accidents.append(
            (draw.uniform(0.3, lasts_s), draw.choice(["kill script", "kill worker", "stop"]), 0)
        )
    shapes = [
        Shape(
            dataclasses.replace(
                settings, **draw.choice([*[{}] * 8, {"num_workers": 2}, {"num_ps": 1}])
            ),
            draw.choice([1, 2, 3]),
            draw.random() < 0.5,
        )
        for _ in range(1 + sum(what == "stop" for _, what, _ in accidents))
    ]
    longest_s = every_s + 2 * work_s + save_s + SETTLED_S + 4 * slowest_s
    if is_quiet:
        shapes = [Shape(stalling(settings), draw.choice([1, 2, 3]), True)]
    return Plan(
        seed, shapes, rows, learner(how), learning=how, partitions=partitions, start_s=start_s, pace_s=pace_s, checkpoint_s=draw.choice([0.3, 1.0, 4.0]),
        quiet_s=1.3 * STALL_S if is_quiet else 0.0, longest_s=longest_s if is_quiet else 0.0, restarts=100, accidents=accidents,
        slowest_s=slowest_s, boot_s=draw.choice([0.5, 3.0]),
    )  # fmt: skip


def learner(how: Learning) -> Callable[[Any, int], Any]:
    def script(job: Any, index: int) -> Any:
        return (
            Learner(job, index, how)
            if index < job.settings.num_workers
            else scripts.Serving(job, index)
        )

    return script


def kill_plan(what: str, message: int) -> Plan:
    """A script that keeps a state, and a kill at a message."""
    how = Learning(batch=2, every_rows=4, save_s=0.1)
    settings = settings_of(output_schema=learning.SCHEMA, save_every_s=0.5)
    return Plan(
        message, [Shape(settings, 1, True)], 12, learner(how), learning=how, partitions=1, start_s=0.1, checkpoint_s=0.3,
        restarts=1, kill=(what, message),
    )  # fmt: skip


def slow_worker_plan(work_s: float) -> Plan:
    """A bounded stream of two workers whose scripts return after two chunks, where the chief would
    end long before worker 0, which works up to so many seconds on a chunk.
    """
    settings = settings_of(
        num_workers=2, replay=UNCOMMITTED, on_return=RESTART, output_schema=SCHEMA
    )

    def script(job: Any, index: int) -> Any:
        return scripts.Stream(job, index, scripts.EACH, 0, work_s if index else 0.02, 2)

    return Plan(0, [Shape(settings, 2, True)], 10, script, commits=True, start_s=0.1, limit_s=900.0)


PLANS: dict[str, Callable[[int], Plan]] = {
    "stream": stream_plan,
    "group": group_plan,
    "learn": learn_plan,
}


def run(kind: str, seed: int) -> Job:
    """Run a schedule, and raise BrokenPromise where it breaks one."""
    return run_plan(PLANS[kind](seed), f"{kind} {seed}")


def run_plan(plan: Plan, name: str) -> Job:
    printed = io.StringIO()  # by processes that lose their channel
    with contextlib.ExitStack() as stack:
        world = stack.enter_context(world_of(name))
        stack.enter_context(installed())
        stack.enter_context(contextlib.redirect_stderr(printed))
        net = Network(world)
        net.loss, net.repeats, net.slowest_s = plan.loss, plan.repeats, plan.slowest_s
        job = Job(world, net, plan, History(SETTLED_S + 4 * plan.slowest_s))
        if plan.learning is not None:
            job.folder = stack.enter_context(tempfile.TemporaryDirectory())
        if plan.kill[0]:
            net.at_message[plan.kill[1]] = _kill(job, plan.kill[0])
        for when, what, index in plan.accidents:
            world.after(when, _accident(job, what, index))
        if not world.run_until(lambda: job.is_over, plan.limit_s):
            _raise(job.error)
            raise BrokenPromise(f"waits for ever: {waiting(job)}")
        _raise(job.error)
        if job.has_succeeded:
            _check_success(job)
        job.attempt.cancel(True)
        gone = world.run_until(
            lambda: all(child.exit_status is not None for child in job.children), 60.0
        )
        if not gone:
            raise BrokenPromise("processes outlive the job")
        _raise(job.error)
        for name, error in world.errors:
            raise BrokenPromise(f"a thread ended with an error: {name}: {error!r}") from error
    return job


def _raise(error: Optional[Exception]) -> None:
    if error is not None:
        raise error


def _check_success(job: Job) -> None:
    if job.attempt.must_fail:
        raise BrokenPromise(f"the job succeeded in spite of {job.attempt.must_fail}")
    plan = job.plan
    ids = [
        partition * 1000 + number
        for partition in range(plan.partitions)
        for number in range(plan.rows)
    ]
    if plan.in_step and job.settings.equal_steps == DROP:
        return
    check_rows(job.history, plan.repeats_output, ids)
    if plan.learning is not None:
        check_states(
            job.history, plan.learning.batch, all(shape.settings.size == 1 for shape in plan.shapes)
        )


def waiting(job: Job) -> str:
    """Say where each task stands: its innermost frames outside of the simulation's own waits."""
    places = []
    for process in job.world.processes:
        for task in process.tasks:
            frame, calls = task.greenlet.gr_frame, []
            while frame is not None:
                code = frame.f_code
                if not code.co_filename.endswith(("/world.py", "/network.py")):
                    calls.append(
                        f"{code.co_filename.rpartition('/')[2]}:{frame.f_lineno} {code.co_name}"
                    )
                frame = frame.f_back
            places.append(f"{process.name}, {task.name}: {' < '.join(calls[:6])}")
    return f"attempt {job.attempt.number} at {job.world.now:.1f}:\n" + "\n".join(places)


def _missed(job: Any, index: int) -> list[str]:
    """Return what others say of a member that they do not hear from."""
    if index == 0:
        return ["the chief has not answered for 30 s", "the chief does not answer at host-0"]
    name = named(job, index)
    return [
        rf"{name} on host-\d has not reported for 30 s",
        rf"{name} on host-\d did not report or connect",
    ]


def _kill(job: Job, what: str) -> Callable[[], None]:
    def happen() -> None:
        attempt = job.attempt
        running = [child for child in attempt.children if child.exit_status is None]
        if attempt.is_over:
            return
        if what == "worker" and not attempt.subtasks[0].is_done:
            job.blame("Flink lost a worker")
            job.world.after(
                job.world.random.random(), lambda: attempt.failed("Flink lost a worker")
            )
            attempt.workers[0].kill()  # last, as it ends this call where the worker makes it
        elif what == "script" and running:
            attempt.culprits.append(r"the process killed by signal 9")
            running[0].kill()

    return happen


def _accident(job: Job, what: str, index: int) -> Callable[[], None]:
    def happen() -> None:
        attempt = job.attempt
        if job.is_over or attempt.is_over:
            return
        if what == "stop":
            job.stop_and_continue()
        elif what == "kill script":
            running = [child for child in attempt.children if child.is_in_main]
            if running:
                child = running[index % len(running)]
                killed = (
                    rf"{named(job, child.index)} \(script\.py\): the process killed by signal 9"
                )
                if child.index < job.settings.num_workers:
                    job.blame(killed)
                else:  # of a server, which is an error only where a worker fails too
                    attempt.culprits.append(killed)
                if child.process.host in job.network.cut:  # its error may be late
                    attempt.culprits += _missed(job, child.index)
                child.kill()
        elif what == "kill worker":
            worker = attempt.workers[index % len(attempt.workers)]
            if all(each.is_done for each in attempt.subtasks if each.process is worker):
                return
            worker.kill()
            job.blame("Flink lost a worker")
            job.world.after(
                job.world.random.random(), lambda: attempt.failed("Flink lost a worker")
            )
        elif what == "cut":  # shorter than what counts as lost
            member = index % job.settings.size
            host = f"host-{member}"
            job.network.cut.add(host)
            if attempt.must_fail:
                attempt.culprits += _missed(job, member)
            job.world.after(job.world.random.random() * 12, lambda: job.network.cut.discard(host))

    return happen
