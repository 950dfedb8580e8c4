"""The function of a bounded input, with a real process behind it and a test in place of Flink."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyflink.common import Row

from bridge.exceptions import BridgeError, ConfigurationError, RowError, TaskError
from bridge.files.description import describe
from bridge.files.parts import FilePart, parts_to_arrow
from bridge.files.reading import FileTable
from bridge.flink import exchange
from bridge.flink.elements import Element
from bridge.flink.exchange import END_OF_INPUT, Exchange
from bridge.flink.keys import keys_of_subtasks
from bridge.group.addresses import reserve
from bridge.schema import Schema
from bridge.settings import GroupSettings, UserFile
from tests.e2e.jobs import SCRIPTS
from tests.support.beam_worker import Worker
from tests.support.flink_functions import Subtask
from tests.support.leftovers import task_processes, wait_until
from tests.support.ports import can_bind

pytestmark = pytest.mark.process
KEYS = [11, 22]
ECHO = """
from tfrecords import examples
def main(config):
    ids = [features["id"].int64_list.value[0] for features in examples(config.dataset_file)]
    config.output_writer.write_batch({"id": ids})
"""


def settings(script: str, **changes: Any) -> GroupSettings:
    files = (
        UserFile("script.py", script.encode()),
        UserFile("tfrecords.py", (SCRIPTS / "tfrecords.py").read_bytes()),
    )
    schema = Schema.parse("id BIGINT NOT NULL")
    values: dict[str, Any] = {"num_workers": 1, "num_ps": 0, **changes}
    return GroupSettings(
        operator="TestOp", kind="batch", input_schema=schema, output_schema=schema, main_script="script.py",
        user_files=files, **values,
    )  # fmt: skip


Start = Callable[..., Subtask]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a subtask, as the first element does it."""
    started: list[Subtask] = []

    def open_subtask(
        script: str = ECHO,
        is_streaming: bool = False,
        subtask: Any = None,
        files: FileTable | None = None,
        **changes: Any,
    ) -> Subtask:
        group = settings(script, **changes)
        function = Exchange(
            group, "group", [[key, key + 1] for key in KEYS[: group.size]], is_streaming, files
        )
        started.append(Subtask(function, **{"key": KEYS[0], **(subtask or {})}))
        return started[-1]

    yield open_subtask
    for each in started:
        each.end()


def test_each_chunk_reaches_the_script_once_and_in_order(start: Start) -> None:
    subtask = start()
    assert (
        list(subtask.function.process_element1(Row(Element.START.value, 0, 0, b""), subtask)) == []
    )
    rows = subtask.start() + subtask.feed(range(5)) + subtask.feed([5]) + subtask.feed(range(6, 9))
    assert rows == [], "the script writes when it has all"
    assert subtask.end_input() == [list(range(9))]
    assert not task_processes()


def test_rows_may_come_before_the_address(start: Start) -> None:
    subtask = start()
    assert subtask.feed([1, 2]) == []
    assert subtask.start() == []
    assert subtask.end_input() == [[1, 2]]


def test_parts_of_files_are_read_at_the_end_of_input(start: Start, tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": ["x"] * 1000, "id": range(1000)}), path, row_group_size=100)
    subtask = start(files=describe("Source", [path], selected=["id"]), queue_bytes=1000)
    parts = [FilePart(path, group, 0, 100) for group in (7, 1, 0)]
    element = Row(Element.CHUNK.value, 0, 2, parts_to_arrow(parts[:2]))
    assert list(subtask.function.process_element2(element, subtask)) == []
    subtask.start()
    list(
        subtask.function.process_element2(
            Row(Element.CHUNK.value, 0, 1, parts_to_arrow(parts[2:])), subtask
        )
    )
    assert subtask.end_input() == [[*range(200), *range(700, 800)]]


@pytest.mark.fault("data", "A file that a job cannot read again as it was is an error")
def test_file_that_has_become_shorter_is_an_error(start: Start, tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": range(99)}), path)
    subtask = start(files=describe("Source", [path]))
    subtask.start()
    element = Row(Element.CHUNK.value, 0, 1, parts_to_arrow([FilePart(path, 0, 0, 100)]))
    list(subtask.function.process_element2(element, subtask))
    with pytest.raises(RowError, match=r"^Source: .*a.parquet: group 0 lacks 1 of its rows"):
        subtask.end_input()


@pytest.mark.fault("data", "A job without input rows succeeds")
def test_input_without_rows_ends_without_output(start: Start) -> None:
    subtask = start()
    subtask.start()
    assert subtask.end_input() == [[]]


def test_rows_come_back_while_others_are_fed(start: Start) -> None:
    script = """
def main(config):
    config.output_writer.write_batch({"id": [7, 8]})
    config.output_writer.flush()
    config.dataset_length
"""
    subtask = start(script, is_streaming=True)
    subtask.start()
    assert subtask.look_until(2) == [7, 8], "without any row of input"
    assert subtask.feed([1]) == [] and subtask.end_input() == [[]]


def test_batch_jobs_set_no_timer_between_rows(start: Start) -> None:
    batch = start()
    batch.start()
    assert not batch.processing_timers and batch.event_timers == {END_OF_INPUT}


def test_timer_of_a_streaming_job_is_renewed_until_the_input_ends(start: Start) -> None:
    subtask = start(is_streaming=True)
    subtask.start()
    assert len(subtask.processing_timers) == 1
    subtask.look()
    assert len(subtask.processing_timers) == 1, "the next look"
    assert subtask.end_input() == [[]]
    subtask.look()
    assert not subtask.processing_timers


def test_output_after_the_end_of_input_is_emitted_in_slices(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "SLICE_BYTES", 1)
    script = """
def main(config):
    assert config.dataset_length == 1
    for number in range(3):
        config.output_writer.write_batch({"id": [number] * 200_000})  # 1.6 MB: a message of its own
"""
    subtask = start(script)
    subtask.start()
    subtask.feed([1])
    calls = subtask.end_input()
    assert [set(call) for call in calls] == [{0}, {1}, {2}, set()]
    assert sum(map(len, calls)) == 600_000


def test_a_script_that_fails_fails_the_function(start: Start) -> None:
    subtask = start(
        "def main(config):\n    assert config.dataset_length == 2\n    raise ValueError('at row 2')\n"
    )
    subtask.start()
    subtask.feed([1, 2])
    with pytest.raises(
        TaskError, match=r"^TestOp, chief 0 \(script.py\): the script failed: ValueError: at row 2"
    ):
        subtask.end_input()
    assert not task_processes()


def test_rows_that_come_back_have_to_fit_the_schema(start: Start) -> None:
    subtask = start("def main(config):\n    config.output_writer.write_batch({'id': [None]})\n")
    subtask.start()
    with pytest.raises(
        BridgeError, match="TestOp: script.py wrote row 0: column 'id' .* NOT NULL, got none"
    ):
        subtask.end_input()


def test_closing_the_function_ends_a_busy_process(start: Start) -> None:
    subtask = start("import time\ndef main(config):\n    time.sleep(600)\n")
    subtask.start()
    wait_until(lambda: len(task_processes()) == 1, "the process runs")
    subtask.end()
    assert not task_processes()


@pytest.mark.parametrize("phase", ["start", "rendezvous", "feeding", "output", "end"])
@pytest.mark.fault("jobs", "Cancelling a job ends its processes, whatever they are doing")
def test_cancelling_ends_the_process_in_each_phase(
    start: Start, phase: str, tmp_path: pathlib.Path
) -> None:
    script = f"""
import pathlib, time
def main(config):
    pathlib.Path({str(tmp_path / "writes")!r}).touch()
    config.output_writer.write_batch({{'id': [1] * 1_000_000}})
    time.sleep(600)
"""
    subtask = start(ECHO if phase == "end" else script, queue_bytes=1000)
    if phase not in ("start", "rendezvous"):
        subtask.start()
    if phase == "rendezvous":
        subtask.feed([1])
    waiting = None
    if phase in ("feeding", "output"):
        what = (
            subtask.end_input
            if phase == "output"
            else lambda: [subtask.feed(range(500)) for _ in range(100_000)]
        )
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(what)
            wait_until((tmp_path / "writes").exists, "the script runs")
            subtask.end()
        assert isinstance(waiting.exception(), TaskError)
    elif phase == "end":
        subtask.end_input()
    subtask.end()
    assert not task_processes()


def test_a_function_that_could_not_be_opened_can_be_closed() -> None:
    Exchange(settings(ECHO), "group", KEYS, is_streaming=False).close()


@pytest.mark.fault("jobs")
def test_rows_after_the_end_of_input_are_refused(start: Start) -> None:
    subtask = start()
    subtask.start()
    subtask.end_input()
    with pytest.raises(BridgeError, match="TestOp: 3 rows arrived after the end of input"):
        subtask.feed([1, 2, 3])


def test_an_end_that_comes_before_the_first_element_is_refused(start: Start) -> None:
    subtask = start()
    subtask.watermark = END_OF_INPUT
    with pytest.raises(
        BridgeError, match="TestOp: the input ended before the addresses of the group arrived"
    ):
        subtask.start()


def test_input_that_ends_without_all_addresses_names_the_missing_member(start: Start) -> None:
    subtask = start(num_workers=2)
    subtask.start()
    with pytest.raises(
        BridgeError,
        match="the input ended without the address of worker 0. If the job continues from a checkpoint",
    ):
        subtask.end_input()


@pytest.mark.parametrize("call", [Subtask.start, lambda subtask: subtask.feed([1])])
def test_elements_of_another_key_are_refused(start: Start, call: Callable[[Subtask], Any]) -> None:
    subtask = start(is_streaming=True)
    subtask.start()
    subtask.key = 12
    with pytest.raises(BridgeError, match="an unaligned checkpoint cannot go to other workers"):
        call(subtask)


def test_another_parallelism_than_the_planned_one_is_refused(start: Start) -> None:
    with pytest.raises(
        BridgeError,
        match="TestOp: Flink started 3 tasks instead of 2. Exclude this operator from autoscaling",
    ):
        start(num_workers=2, subtask={"parallelism": 3})


def test_an_elastic_group_has_the_size_of_its_job(start: Start) -> None:
    subtask = start(num_workers=3, num_ps=1, least_workers=1, subtask={"parallelism": 3})
    assert subtask.function._settings.num_workers == 2
    assert (
        subtask.function._keys == keys_of_subtasks(3)
        and subtask.function._key == keys_of_subtasks(3)[0][0]
    )


def test_timers_of_another_key_do_nothing(start: Start) -> None:
    subtask = start(is_streaming=True)
    subtask.start()
    subtask.key = 12
    assert subtask.look() == [] and subtask.end_input() == [[]]


@pytest.mark.parametrize("key", [11, 12])
@pytest.mark.parametrize("call", [lambda subtask: subtask.feed([4]), Subtask.end_input])
def test_going_on_from_a_checkpoint_with_rows_is_refused(
    start: Start, call: Callable[[Subtask], Any], key: int
) -> None:
    first = start()
    first.start()
    first.feed([1, 2, 3])
    checkpoint = first.checkpoint()
    first.end()
    again = start(
        subtask={"states": checkpoint, "attempt": 1} if key == 11 else {"others": {key: checkpoint}}
    )
    again.start()
    with pytest.raises(
        BridgeError, match="restarted the job from a checkpoint, but the 3 rows before it"
    ):
        call(again)


def test_checkpoint_before_the_first_row_can_be_continued(start: Start) -> None:
    first = start()
    first.start()
    checkpoint = first.checkpoint()
    first.feed([1, 2, 3])
    first.end()
    again = start(subtask={"states": checkpoint, "attempt": 1})
    again.start()
    again.feed([1, 2, 3])
    assert again.end_input() == [[1, 2, 3]]


def test_extra_inputs_are_separate_from_the_rows(start: Start) -> None:
    script = """
def main(config):
    (extra,) = config.extra_inputs
    config.output_writer.write_batch({"id": [config.dataset_length, len(list(extra.rows()))]})
"""
    subtask = start(script, extra_schemas=(Schema.parse("id BIGINT NOT NULL"),))
    subtask.start()
    subtask.feed([1, 2], extra_input=1)
    subtask.feed([1, 2, 3])
    assert subtask.end_input() == [[3, 2]]


def test_addresses_are_ordered_by_member_however_they_come(start: Start) -> None:
    script = """
def main(config):
    ports = [int(config.cluster[role][0].split(":")[1]) for role in ("chief", "ps")]
    config.output_writer.write_batch({"id": ports})
"""
    subtask = start(script, is_streaming=True, num_ps=1)
    subtask.start(index=1)
    subtask.start()
    assert subtask.look_until(2) == [subtask.addresses[index].port for index in range(2)]


def test_ports_are_held_until_the_function_is_closed(start: Start) -> None:
    """As where another process of this host has reserved them, which gives them up."""
    subtask = start()
    subtask.start()
    port = subtask.addresses[0].port
    assert not can_bind(port)
    subtask.function.close()
    assert can_bind(port)


def test_worker_that_loses_its_connection_leaves_no_process_and_no_port(start: Start) -> None:
    """Beam's worker closes no function then."""
    ports = []

    def work() -> None:
        subtask = start()  # whose script waits for rows
        subtask.start()
        ports.append(subtask.addresses[0].port)

    with pytest.raises(ConnectionError):
        Worker(work, ConnectionError("broken")).run()
    assert not task_processes()
    assert can_bind(ports[0])


def test_a_process_that_cannot_be_started_leaves_no_port(start: Start) -> None:
    ports = reserve("group", 0, 0)

    def work() -> None:
        with pytest.raises(ConfigurationError):
            start(python="/no/python")

    Worker(work).run()
    assert can_bind(ports[0])


def test_a_script_starts_when_all_addresses_are_known(start: Start) -> None:
    """The other member, a parameter server, is announced only; it does not run."""
    script = "def main(config):\n    config.output_writer.write_batch({'id': [len(config.cluster['ps'])]})\n"
    subtask = start(script, is_streaming=True, num_ps=1)
    subtask.start()
    assert subtask.look() == []
    assert subtask.start(index=1) == []
    assert subtask.look_until(1) == [1]
