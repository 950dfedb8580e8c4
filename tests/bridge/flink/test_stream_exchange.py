"""The function of a stream, with a real process behind it and a test in place of Flink."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bridge.exceptions import BridgeError, TaskError
from bridge.flink import stream_exchange
from bridge.flink.event_time import EventTime
from bridge.flink.exchange import END_OF_INPUT
from bridge.flink.stream_exchange import StreamExchange
from bridge.schema import Schema
from bridge.settings import FAIL, RESTART, UNCOMMITTED, GroupSettings, UserFile
from tests.e2e.jobs import SCRIPTS
from tests.support.flink_functions import Subtask
from tests.support.leftovers import wait_until

pytestmark = pytest.mark.process
KEY = 11
ECHO = """
def main(config):
    for columns in config.tf_context.rows.columns():
        config.output_writer.write_batch({"id": ids(columns)})
"""
HELPERS = """
import os
from akdl.wire.cells import read_cells
def ids(columns):
    return read_cells(columns.columns[0], columns.rows).values
"""
FIRST_ONLY = """
def main(config):
    columns = next(iter(config.tf_context.rows.columns()))
    config.output_writer.write_batch({"id": ids(columns)[:1]})
    config.commit(1)
"""

Start = Callable[..., Subtask]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a subtask, as the first element does it."""
    started: list[Subtask] = []
    schema = Schema.parse("id BIGINT NOT NULL")

    def open_subtask(
        script: str = ECHO,
        keeps_rows: bool = True,
        subtask: Any = None,
        keys: Any = None,
        from_savepoint: bool = True,
        **changes: Any,
    ) -> Subtask:
        text = HELPERS + "from tfrecords import examples\n" + script
        files = (
            UserFile("script.py", text.encode()),
            UserFile("tfrecords.py", (SCRIPTS / "tfrecords.py").read_bytes()),
        )
        settings = GroupSettings(
            operator="TestOp", kind="stream", input_schema=schema, output_schema=schema, main_script="script.py",
            user_files=files, **{"num_workers": 1, "num_ps": 0, **changes},
        )  # fmt: skip
        function = StreamExchange(settings, "group", keys or [[KEY]], keeps_rows, from_savepoint)
        started.append(Subtask(function, **{"key": KEY, **(subtask or {})}))
        return started[-1]

    yield open_subtask
    for each in started:
        each.end()


def pending(subtask: Subtask) -> int:
    """Return how many rows a checkpoint would keep."""
    done = subtask.states["akdl_done"].value() or 0
    return sum(
        first + rows - max(first, done)
        for first, (rows, _) in subtask.states["akdl_pending"].items()
    )


def look_until_all_done(subtask: Subtask) -> list[int]:
    found: list[int] = []
    wait_until(
        lambda: found.extend(subtask.look()) or pending(subtask) == 0,
        "the script is done with all rows",
    )
    return found


def test_output_is_emitted_while_no_input_arrives(start: Start) -> None:
    subtask = start()
    subtask.start()
    rows = subtask.feed([1, 2, 3])
    rows += subtask.look_until(3 - len(rows))
    rows += subtask.feed([4])
    rows += subtask.look_until(4 - len(rows))
    assert rows == [1, 2, 3, 4] and sum(subtask.end_input(), []) == []


def test_the_end_of_input_waits_for_the_last_row(start: Start) -> None:
    subtask = start()
    rows = (
        subtask.start()
        + subtask.feed(range(100))
        + subtask.feed(range(100, 200))
        + sum(subtask.end_input(), [])
    )
    assert rows == list(range(200)) and pending(subtask) == 0
    subtask.look()
    assert not subtask.processing_timers, "nothing is looked for after the end"


def test_timer_for_output_follows_chunk_wait(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    subtask = start(chunk_wait_s=0.25)
    monkeypatch.setattr(subtask, "current_processing_time", lambda: 1000)
    subtask.start()
    assert subtask.processing_timers == {1250}


def test_checkpoint_keeps_rows_that_the_script_has_not_read(start: Start) -> None:
    first = start("import time\ndef main(config):\n    time.sleep(600)\n")
    first.start()
    first.feed([1, 2, 3])
    first.feed([4])
    checkpoint = first.checkpoint()
    first.feed([5])  # comes again from the source
    first.end()
    again = start(subtask={"states": checkpoint, "attempt": 1})
    rows = again.start()  # the rows of the checkpoint are given before any other
    rows += again.feed([5])
    assert rows + sum(again.end_input(), []) == [1, 2, 3, 4, 5]


def test_finished_rows_are_not_repeated_after_a_restart(start: Start) -> None:
    first = start()
    first.start()
    rows = first.feed([1, 2, 3])
    rows += look_until_all_done(first)
    checkpoint = first.checkpoint()
    first.end()
    assert dict(checkpoint["akdl_pending"]) == {}
    again = start(subtask={"states": checkpoint, "attempt": 1})
    again.start()
    assert again.feed([4]) + sum(again.end_input(), []) == [4]


def test_with_uncommitted_replay_output_and_restored_rows_follow_commits(start: Start) -> None:
    script = """
def main(config):
    for path in config.tf_context.rows.segments():
        for features in examples(path):
            id = features["id"].int64_list.value[0]
            config.output_writer.write_batch({"id": [id]})
            if id == 1:
                config.commit(1)
"""
    first = start(script, replay=UNCOMMITTED)
    first.start()
    rows = first.feed([1, 2, 3])
    wait_until(
        lambda: rows.extend(first.look()) or pending(first) == 2, "one row of three is committed"
    )
    assert rows == [1], "the output of the others waits for a commit, as a failure would repeat it"
    checkpoint = first.checkpoint()
    first.end()
    again = start(ECHO, replay=UNCOMMITTED, subtask={"states": checkpoint, "attempt": 1})
    assert again.start() + sum(again.end_input(), []) == [2, 3], (
        "rows that the script has taken but not committed"
    )


@pytest.mark.fault("jobs")
def test_a_script_that_commits_too_little_gets_no_more_rows_and_a_warning(
    start: Start, caplog: pytest.LogCaptureFixture, tmp_path: pathlib.Path
) -> None:
    may_commit = tmp_path / "may_commit"
    script = f"""
import time
def main(config):
    for columns in config.tf_context.rows.columns():
        config.output_writer.write_batch({{"id": ids(columns)}})
        while not os.path.exists({str(may_commit)!r}):
            time.sleep(0.01)
        config.commit(columns.rows)
"""

    def release_the_script() -> None:
        wait_until(lambda: bool(caplog.records), "a warning")
        may_commit.touch()

    subtask = start(script, replay=UNCOMMITTED, max_uncommitted=1)
    rows = subtask.start() + subtask.feed([1])
    assert not caplog.records, "one chunk always passes"
    releaser = threading.Thread(target=release_the_script)
    releaser.start()
    rows += subtask.feed([2])
    releaser.join()
    assert (
        "1 rows" in caplog.text
        and "maxUncommitted is 1 bytes" in caplog.text
        and "task_config.commit()" in caplog.text
    )
    assert rows + sum(subtask.end_input(), []) == [1, 2] and pending(subtask) == 0


def test_rows_kept_by_a_checkpoint_are_given_by_the_first_timer_too(start: Start) -> None:
    first = start("import time\ndef main(config):\n    time.sleep(600)\n")
    first.start()
    first.feed([1, 2])
    checkpoint = first.checkpoint()
    first.end()
    again = start(subtask={"states": checkpoint, "attempt": 1})
    rows = list(again._ids(again.function.on_timer(1, again)))
    assert rows + again.start() + sum(again.end_input(), []) == [1, 2]


def unfinished(start: Start, *chunks: list[int], **subtask: Any) -> Any:
    """Return a checkpoint of a member whose script takes no row."""
    first = start("import time\ndef main(config):\n    time.sleep(600)\n", subtask=subtask)
    first.start()
    for ids in chunks:
        first.feed(ids)
    first.end()
    return first.checkpoint()


def test_rows_of_members_of_a_savepoint_move_to_the_member_that_has_their_key(start: Start) -> None:
    others = {12: unfinished(start, [3, 4], [5]), 13: unfinished(start), 14: unfinished(start, [6])}
    settings = {"keys": [[KEY, 12, 13, 14, 15]], "replay": UNCOMMITTED}
    again = start(
        "def main(config):\n    config.commit(0)\n    list(config.tf_context.rows.columns())\n",
        subtask={"states": unfinished(start, [1, 2]), "others": others},
        **settings,
    )
    assert again.start() + again.feed([7]) == []
    again.end()
    assert pending(again) == 7 and not any(
        states.get("akdl_pending") for states in again.others.values()
    ), "each row once"
    committing = ECHO + "        config.commit(columns.rows)\n"
    last = start(committing, subtask={"states": again.checkpoint(), "attempt": 1}, **settings)
    rows = last.start()
    wait_until(lambda: rows.extend(last.look()) or pending(last) == 0, "all are committed")
    assert rows == [1, 2, 3, 4, 5, 6, 7]


def test_partly_finished_rows_of_a_savepoint_are_restored_without_their_beginning(
    start: Start,
) -> None:
    done = unfinished(start, [3, 4, 5])
    done["akdl_done"].update(2)
    again = start(keys=[[KEY, 12]], subtask={"others": {12: done}})
    rows = again.start() + again.feed([6])
    assert rows + sum(again.end_input(), []) == [5, 6]


def test_rows_of_a_savepoint_for_a_parameter_server_are_refused(start: Start) -> None:
    group = {"keys": [[KEY], [21, 12]], "num_ps": 1}
    with pytest.raises(
        BridgeError,
        match="3 rows in flight of the savepoint went to ps 0, which takes no rows. Continue with",
    ):
        start(
            subtask={"key": 21, "index": 1, "others": {12: unfinished(start, [1, 2, 3])}}, **group
        ).start()
    assert (
        start(subtask={"key": 21, "index": 1, "others": {12: unfinished(start)}}, **group).start()
        == []
    )


def test_timers_of_other_keys_do_nothing_and_elements_are_refused(start: Start) -> None:
    subtask = start()
    subtask.start()
    subtask.key = 12
    assert subtask.look() == [] and subtask.end_input() == [[]]
    with pytest.raises(
        BridgeError, match="rows in flight of an unaligned checkpoint cannot go to other workers"
    ):
        subtask.feed([1])


@pytest.mark.fault(
    "jobs",
    "A savepoint of other counts that the program did not know of is refused, and none of its rows is lost",
)
def test_timers_of_other_keys_are_refused_where_no_savepoint_is_known(start: Start) -> None:
    subtask = start(from_savepoint=False)
    subtask.start()
    subtask.key = 12
    with pytest.raises(
        BridgeError,
        match="the program did not know of it .* set execution.state-recovery.path before",
    ):
        subtask.look()


@pytest.mark.parametrize("keeps", [(False, False), (False, True), (True, False)])
@pytest.mark.fault("jobs", "A savepoint without the rows in flight is refused")
def test_a_savepoint_without_rows_is_refused(start: Start, keeps: tuple[bool, bool]) -> None:
    first = start(keeps_rows=keeps[0])
    first.start()
    first.feed([1, 2])
    checkpoint = first.checkpoint()
    first.end()
    again = start(keeps_rows=keeps[1], subtask={"states": checkpoint, "attempt": 1})
    again.start()
    with pytest.raises(BridgeError, match="the savepoint lacks the rows .* had not finished"):
        again.feed([3])


def test_a_script_that_returns_early_drops_the_rest(start: Start) -> None:
    subtask = start("def main(config):\n    config.output_writer.write_batch({'id': [7]})\n")
    rows = subtask.start() + subtask.feed([1, 2])
    rows += subtask.look_until(1 - len(rows))
    look_until_all_done(subtask)
    assert rows == [7] and sum(subtask.end_input(), []) == []


@pytest.mark.fault("jobs", "A script that returns early fails the job where onReturn says so")
def test_script_that_returns_early_fails_with_on_return_fail(start: Start) -> None:
    subtask = start("def main(config):\n    print('bye')\n", on_return=FAIL)
    subtask.start()
    with pytest.raises(
        TaskError, match="(?s)script.py.: the script returned before its input ended. onReturn="
    ):
        subtask.look_until(1)


@pytest.mark.fault("data", "A script that may not return early drops no row at the end of a stream")
@pytest.mark.parametrize("keeps_rows", [True, False])
def test_script_with_on_return_fail_has_to_read_all_rows(
    start: Start, tmp_path: pathlib.Path, keeps_rows: bool
) -> None:
    script = f"""
import pathlib, time
def main(config):
    for batch in config.context.arrays(2):
        while not pathlib.Path({str(tmp_path / "ended")!r}).exists():
            time.sleep(0.01)
        break
"""
    subtask = start(script, keeps_rows, on_return=FAIL)
    assert subtask.start() + subtask.feed([1, 2, 3]) == []
    (tmp_path / "ended").touch()
    with pytest.raises(TaskError, match="the script returned before its input ended. onReturn="):
        subtask.end_input()


def test_script_may_return_at_the_end_of_input(start: Start) -> None:
    subtask = start(on_return=FAIL)
    assert subtask.start() + subtask.feed([1]) + sum(subtask.end_input(), []) == [1]


@pytest.mark.long
def test_script_that_returns_is_restarted_with_its_unfinished_rows(start: Start) -> None:
    subtask = start(FIRST_ONLY, replay=UNCOMMITTED, on_return=RESTART)
    rows = subtask.start() + subtask.feed([1, 2, 3])
    rows += subtask.look_until(2 - len(rows))
    rows += subtask.feed([4])
    assert rows + sum(subtask.end_input(), []) == [1, 2, 3, 4], "also after the end of input"
    assert pending(subtask) == 0


@pytest.mark.fault(
    "jobs", "A script that returns after each batch and is started again writes each row once"
)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_script_that_returns_after_a_batch_gets_each_row_once(start: Start, size: int) -> None:
    script = f"""
def main(config):
    for batch in config.context.arrays({size}):
        config.output_writer.write_batch({{"id": batch["id"]}})
        break
"""
    subtask = start(script, on_return=RESTART)
    rows = subtask.start() + subtask.feed([1, 2, 3])
    rows += subtask.look_until(3 // size * size - len(rows))
    rows += subtask.feed([4, 5, 6])
    assert rows + sum(subtask.end_input(), []) == [1, 2, 3, 4, 5, 6] and pending(subtask) == 0


def test_output_behind_the_last_commit_is_written_again_with_its_rows(start: Start) -> None:
    script = """
def main(config):
    for done, batch in enumerate(config.context.arrays(1), 1):
        config.output_writer.write_batch({"id": batch["id"]})
        if done == 2:
            return
        config.commit(done)
"""
    subtask = start(script, replay=UNCOMMITTED, on_return=RESTART)
    rows = subtask.start() + subtask.feed([1, 2, 3])
    rows += subtask.look_until(2 - len(rows))
    assert rows + sum(subtask.end_input(), []) == [1, 2, 3] and pending(subtask) == 0


def test_rows_written_behind_main_fail_a_script_that_is_started_again(start: Start) -> None:
    script = """
import atexit, time
def main(config):
    for batch in config.context.arrays(1):
        config.output_writer.write_batch({"id": batch["id"]})
        if batch["id"][0] == 1:
            atexit.register(lambda: (time.sleep(0.3), config.output_writer.write_batch({"id": [7]})))
        break
"""
    subtask = start(script, on_return=RESTART)
    rows = subtask.start()
    with pytest.raises(TaskError, match="the script wrote rows after its main had returned"):
        rows += subtask.feed([1, 2])
        subtask.look_until(2 - len(rows))


def test_a_script_that_does_nothing_is_not_started_without_end(start: Start) -> None:
    subtask = start("def main(config):\n    pass\n", on_return=RESTART)
    subtask.start()
    with pytest.raises(TaskError, match="the script returned without finishing any of its 2 rows"):
        subtask.feed([1, 2])
        subtask.look_until(1)


def test_a_script_that_fails_fails_the_function_and_keeps_its_rows(start: Start) -> None:
    script = """
def main(config):
    next(iter(config.tf_context.rows.columns()))
    raise ValueError("once")
"""
    first = start(script, replay=UNCOMMITTED)
    first.start()
    with pytest.raises(
        TaskError, match=r"^TestOp, chief 0 \(script.py\): the script failed: ValueError: once"
    ):
        first.feed([1, 2])
        first.look_until(1)
    checkpoint = first.checkpoint()
    again = start(replay=UNCOMMITTED, subtask={"states": checkpoint, "attempt": 1})
    assert again.start() + sum(again.end_input(), []) == [1, 2]


def test_end_of_input_is_one_timer(start: Start) -> None:
    subtask = start()
    subtask.start()
    subtask.feed([1])
    assert subtask.event_timers == {END_OF_INPUT}


# Event time.

CARRIES = {"watermark": ("t", "SOURCE_WATERMARK()")}
HELD = """
import time
def main(config):
    for columns in config.tf_context.rows.columns():
        while os.path.exists({hold!r}):
            time.sleep(0.01)
        config.output_writer.write_batch({{"id": ids(columns)}})
"""
COMMITS_TWO = """
def main(config):
    for number, columns in enumerate(config.tf_context.rows.columns()):
        config.output_writer.write_batch({"id": ids(columns)})
        config.commit(columns.rows - (number == 2))
"""


def look_until_told(subtask: Subtask, *told: EventTime) -> list[int]:
    found: list[int] = []
    wait_until(
        lambda: found.extend(subtask.look()) or subtask.told == list(told), f"{told} are told"
    )
    return found


def test_a_watermark_follows_the_rows_before_it(start: Start, tmp_path: pathlib.Path) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    subtask = start(HELD.format(hold=str(hold)), **CARRIES)
    subtask.start()
    assert subtask.tell(0, 2, 10) + subtask.tell(1, 2, 20) == [] and subtask.told == [
        EventTime(10)
    ], "no row is before it"
    subtask.feed([1, 2])
    subtask.tell(0, 2, 30)
    subtask.feed([3])
    subtask.tell(1, 2, None)
    taken = subtask.function._member._session
    wait_until(lambda: subtask.look() or taken.progress.rows_read >= 2, "the script has taken rows")
    assert subtask.told == [EventTime(10)], "which it has not written"
    hold.unlink()
    rows = look_until_told(subtask, EventTime(10), EventTime(20), EventTime(30))
    assert rows[:2] == [1, 2] and subtask.told[0] == EventTime(10)
    assert rows + sum(subtask.end_input(), []) == [1, 2, 3]


def test_rows_are_emitted_before_their_watermark(start: Start) -> None:
    subtask = start(**CARRIES)
    subtask.start()
    for number in range(30):
        subtask.feed([number])
        subtask.tell(0, 1, number)
    subtask.end_input()
    ids = [each for each in subtask.output if not isinstance(each, EventTime)]
    assert ids == list(range(30)) and subtask.told
    for place, each in enumerate(subtask.output):
        assert not isinstance(each, EventTime) or set(range(each.time + 1)) <= set(
            subtask.output[:place]
        )


def test_a_watermark_waits_for_commits_where_rows_do(start: Start) -> None:
    subtask = start(COMMITS_TWO, replay=UNCOMMITTED, **CARRIES)
    subtask.start()
    for number in range(3):
        subtask.feed([2 * number, 2 * number + 1])
        subtask.tell(0, 1, number)
    wait_until(lambda: not subtask.look() and pending(subtask) == 1, "all but one are committed")
    assert subtask.told[-1] == EventTime(1)
    subtask.end_input()
    assert subtask.told[-1].time <= 2


def test_rows_dropped_by_a_script_that_returned_do_not_hold_back_watermarks(start: Start) -> None:
    subtask = start("def main(config):\n    pass\n", **CARRIES)
    subtask.start()
    subtask.feed([1, 2])
    subtask.tell(0, 1, 7)
    look_until_told(subtask, EventTime(7))
    subtask.feed([3])
    subtask.tell(0, 1, 8)
    look_until_told(subtask, EventTime(7), EventTime(8))


def test_a_watermark_waits_for_the_next_start_of_a_script(start: Start) -> None:
    subtask = start(FIRST_ONLY, replay=UNCOMMITTED, on_return=RESTART, **CARRIES)
    rows = subtask.start() + subtask.feed([1, 2]) + subtask.tell(0, 1, 5)
    rows += look_until_told(subtask, EventTime(5))
    assert rows == [1, 2], "the second one is of the second start"


def test_watermarks_after_a_restart_wait_for_the_rows_of_the_checkpoint(
    start: Start, tmp_path: pathlib.Path
) -> None:
    first = start(
        "import time\ndef main(config):\n    time.sleep(600)\n", replay=UNCOMMITTED, **CARRIES
    )
    first.start()
    first.feed([1, 2, 3])
    first.tell(1, 2, END_OF_INPUT)  # one subtask of two has ended
    first.tell(0, 2, 4)
    checkpoint = first.checkpoint()
    first.end()
    assert first.told == []
    again = start(
        COMMITS_TWO, replay=UNCOMMITTED, subtask={"states": checkpoint, "attempt": 1}, **CARRIES
    )
    rows = again.start() + again.feed([4]) + again.tell(0, 2, 5)
    rows += look_until_told(again, EventTime(5))
    assert rows + sum(again.end_input(), []) == [1, 2, 3, 4]


def test_watermark_that_waits_for_long_is_reported(
    start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_exchange, "WARNING_S", 0.05)
    subtask = start(
        "import time\ndef main(config):\n    list(config.tf_context.rows.segments())\n", **CARRIES
    )
    subtask.start()
    subtask.feed([1, 2])
    subtask.tell(0, 1, 5)
    wait_until(lambda: subtask.look() or caplog.records, "a warning")
    assert "event time waits for 2 rows" in caplog.text and "tf_context.batches(n)" in caplog.text
    assert subtask.told == []
