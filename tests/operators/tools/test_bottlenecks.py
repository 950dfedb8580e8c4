"""Bottlenecks that are planted in groups of real processes: the record splits their time, and the
advice names the cause.
"""

from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from bridge.exceptions import TaskError
from bridge.group.addresses import Address, own_host, release, reserve
from bridge.member.member import Member
from bridge.member.registry import forget_groups
from bridge.member.status import DATA, LOST, PEERS, READ, START, WORK
from bridge.schema import Schema
from bridge.settings import GroupSettings, UserFile
from operators.progress.display import StatusPoller
from operators.progress.record import read_record
from operators.progress.state import Shown
from operators.progress.status_sources import StatusSource
from operators.tools.advice import Advice, advise
from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.warm_python import warm_python

pytestmark = [pytest.mark.estimator, pytest.mark.process, pytest.mark.tf]
SCHEMA = Schema.parse("id BIGINT NOT NULL")
HEAD = """
import os, time

def is_over(config):
    return os.path.exists(config.user_params["over"])

def busy(seconds):  # of a processor, so that it is the slowest part on a busy machine too
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
"""


class Group:
    """A group without Flink, whose rows come from threads of this test."""

    def __init__(
        self,
        folder: pathlib.Path,
        script: str,
        workers: int,
        batches: Callable[[], Iterable[pa.RecordBatch]],
        python: str | None = None,
    ) -> None:
        self.over = folder / "over"
        self._settings = GroupSettings(
            operator="TestOp", kind="batch", num_workers=workers, num_ps=0, input_schema=SCHEMA, output_schema=SCHEMA,
            main_script="train.py", user_files=(UserFile("train.py", (HEAD + script).encode()),), python=python or warm_python(),
            user_params=json.dumps({"over": str(self.over)}), intra_op_parallelism=1,
        )  # fmt: skip
        self._batches = batches
        self._members: list[Member] = []
        self._threads: list[threading.Thread] = []

    def start(self, attempt: int = 0) -> None:
        addresses = [
            Address(own_host(), *reserve("bottlenecks", index, attempt))
            for index in range(self._settings.size)
        ]
        for index in range(self._settings.size):
            member = Member(self._settings, "bottlenecks", index, attempt, lambda: None)
            member.set_cluster(addresses)
            self._members.append(member)
            self._threads.append(threading.Thread(target=self._drive, args=(member,), daemon=True))
            self._threads[-1].start()

    def _drive(self, member: Member) -> None:
        try:
            for batch in self._batches():
                list(member.feed(batch))
            list(member.finish())
        except TaskError:
            member.stop()

    def stop(self) -> None:
        self.over.touch()
        for thread in self._threads:
            thread.join(DEADLINE_S)
        for member in self._members:
            member.stop()
        for attempt in range(len(self._members)):
            for index in range(self._settings.size):
                release("bottlenecks", index, attempt)


@contextmanager
def recorded(
    folder: pathlib.Path, group: Group, workers: int = 1
) -> Iterator[Callable[..., float]]:
    """Record a group while the block runs; yield a function that returns the largest share of uses
    in the time of a member, from its start on.
    """
    shown = Shown("train.py", workers, log_dir=str(folder / "logs"))
    poller = StatusPoller({"bottlenecks": shown}, StatusSource(["bottlenecks"]), None, says=False)
    thread = threading.Thread(target=poller.run)
    thread.start()

    def share(*uses: str) -> float:
        times = [{**each.time_s, START: 0.0} for each in poller.states["bottlenecks"].members]
        shares = [
            sum(time_s.get(use, 0.0) for use in uses) / (sum(time_s.values()) or 1.0)
            for time_s in times
        ]
        return max(
            (part for part, time_s in zip(shares, times) if sum(time_s.values()) > 4.0), default=0.0
        )

    try:
        yield share
    finally:
        group.stop()
        # and looks once more, for an attempt that lasted less than a look
        poller.stop(failed=False)
        thread.join()
        forget_groups(["bottlenecks"])


def advice_on(folder: pathlib.Path) -> Advice:
    """Return the first advice on the recorded run, whose times add up; on a busy machine, start and
    end may take most of them.
    """
    (path,) = (folder / "logs").iterdir()
    record = read_record(path.read_text())
    for samples in record.samples.values():
        assert sum(samples[-1][1].time_s.values()) == pytest.approx(record.total_s, abs=3.0)
    return next(
        each
        for each in advise(record)
        if "Start-up" not in each.text and "The export" not in each.text
    )


def rows(count: int) -> Callable[[], list[pa.RecordBatch]]:
    return lambda: [pa.record_batch([pa.array(range(count), pa.int64())], names=["id"])]


@pytest.mark.parametrize(
    ("script", "count", "uses", "text", "evidence"),
    [
        pytest.param(
            "def main(config):\n"
            "    import tensorflow as tf\n"
            "    def parse(ids):\n"
            "        busy(0.3)\n"
            "        return ids\n"
            "    dataset = config.tf_context.batches(100, num_epochs=None)\n"
            "    for batch in dataset.map(lambda batch: tf.numpy_function(parse, [batch['id']], tf.int64)):\n"
            "        if is_over(config):\n"
            "            break\n",
            1000, [READ], "Making tensors of the rows is the bottleneck", "reading rows", id="slow parse",
        ),
        pytest.param(
            "def train_step(batch):\n"
            "    busy(0.3)\n"
            "def main(config):\n"
            "    for step, batch in enumerate(config.tf_context.batches(100, num_epochs=None)):\n"
            "        train_step(batch)\n"
            "        config.report(step + 1)\n"
            "        if is_over(config):\n"
            "            break\n",
            1000, [WORK], "The script is the bottleneck", " s in busy (train.py). A step worked for ",
            id="slow step", marks=pytest.mark.long,
        ),
        pytest.param(
            "def main(config):\n"
            "    total = 0.0\n"
            "    for step, batch in enumerate(config.tf_context.batches(1, num_epochs=None)):\n"
            "        total += float(batch['id'][0])\n"
            "        config.report(step + 1)\n"
            "        if step % 100 == 0 and is_over(config):\n"
            "            break\n",
            1000, [WORK, READ], "Steps are short, and mostly fixed costs: take larger batches", "A step took ", id="small batches",
            marks=pytest.mark.long,
        ),
    ],
)  # fmt: skip
def test_a_slow_script_is_named(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    count: int,
    uses: list[str],
    text: str,
    evidence: str,
) -> None:
    # A busy machine makes short steps long, but not as long as the slow ones here.
    monkeypatch.setattr("operators.tools.advice._SHORT_STEP_S", 0.1)
    group = Group(tmp_path, script, 1, rows(count))
    with recorded(tmp_path, group) as share:
        group.start()
        wait_until(lambda: share(*uses) > 0.7, "the bottleneck dominates", 2 * DEADLINE_S)
    advice = advice_on(tmp_path)
    assert text in advice.text and evidence in advice.evidence


@pytest.mark.long
def test_a_slow_source_is_named(tmp_path: pathlib.Path) -> None:
    def slowly() -> Iterator[pa.RecordBatch]:
        while not group.over.exists():
            yield from rows(10)()
            released.wait(0.3)

    released = threading.Event()
    group = Group(
        tmp_path,
        "def main(config):\n    for batch in config.tf_context.batches(10):\n        pass\n",
        1,
        slowly,
    )
    with recorded(tmp_path, group) as share:
        group.start()
        wait_until(lambda: share(DATA) > 0.7, "the script waits for rows", 2 * DEADLINE_S)
        released.set()
    advice = advice_on(tmp_path)
    assert "Flink is the bottleneck" in advice.text and "waiting for data" in advice.evidence


SLOW_RANK = """
def main(config):
    import tensorflow as tf
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    is_slow = config.task_type == "worker"
    over = 0.0
    while not over:
        if is_slow:
            busy(0.5)
        over = float(strategy.reduce("sum", strategy.run(lambda: tf.constant(float(is_over(config)))), None))
"""


@pytest.mark.slow
def test_one_slow_rank_is_named(tmp_path: pathlib.Path) -> None:
    group = Group(tmp_path, SLOW_RANK, 2, rows(10))
    with recorded(tmp_path, group, 2) as share:
        group.start()

        # On a busy machine both wait long for each other's start, and only then one for the other.
        # The one that works waits less than half as much.
        def one_waits_and_one_works() -> bool:
            return share(PEERS) > 0.5 and share(WORK) > 0.75

        wait_until(one_waits_and_one_works, "the chief waits for its peer", 3 * DEADLINE_S)
    advice = advice_on(tmp_path)
    assert (
        "worker 0 holds up the other workers" in advice.text
        and "worker 0: useful work" in advice.evidence
    )


FAILS = """
def main(config):
    config.report(1)
    busy(0 if is_over(config) else 2)
    if not is_over(config):
        raise ValueError("lost")
"""


@pytest.mark.long
def test_restarts_are_named_as_the_bottleneck(tmp_path: pathlib.Path) -> None:
    group = Group(tmp_path, FAILS, 1, rows(10))
    with recorded(tmp_path, group) as share:
        for attempt in range(50):
            group.start(attempt)
            group._threads[-1].join(DEADLINE_S)
            if share(LOST) > 0.7:
                break
        group.over.touch()
        group.start(attempt + 1)
        group._threads[-1].join(DEADLINE_S)
    advice = advice_on(tmp_path)
    assert (
        "Restarts cost much time" in advice.text and f"{attempt + 1} restarts." in advice.evidence
    )
