"""Where a script's rows are finished, and the state that belongs to it."""

from __future__ import annotations

import os
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from akdl.rows.stream_rows import StreamRows
from akdl.runner import cuts as cuts_module
from akdl.runner.config import StreamTaskConfig
from akdl.runner.context import TFContext
from akdl.runner.cuts import Cuts, StateError
from akdl.runner.script_state import Learnt
from akdl.wire import Task
from tests.akdl.rows.test_file_rows import COLUMNS, Feed
from tests.support.leftovers import wait_until

pytestmark = pytest.mark.tf


class Writer:
    """Notes the cuts, with a mark for those that have a state."""

    def __init__(self) -> None:
        self.cuts: list[int] = []
        self.states: dict[int, bytes] = {}
        self.is_loose = False

    def cut(self, rows: int, state: bytes = b"", at_once: bool = False) -> None:
        if rows > sum(self.cuts[-1:]):
            self.cuts.append(rows)
        if state:
            self.states[rows] = state

    def loosen(self) -> None:
        self.is_loose = True


class Script:
    """The task config of a script that reads the rows up to 25, and what its cuts were."""

    def __init__(
        self,
        folder: pathlib.Path,
        state: bytes = b"",
        is_alone: bool = True,
        first: int = 0,
        ends: bool = True,
        publish: Any = None,
        **task: Any,
    ) -> None:
        self.feed, self.writer = Feed(), Writer()
        self.rows = StreamRows(str(folder), self.feed, COLUMNS)
        for begin, end in ((first, 15), (15, 25)):
            self.feed.chunk(*range(begin, end))
        if ends:
            self.feed.end()
        task = {
            "work_dir": str(folder),
            "save_every_ms": 3_600_000,
            "most_unsaved": 1 << 30,
            **task,
        }
        self.cuts = Cuts(self.rows, self.writer, Task(**task), state, is_alone, publish)
        given = dict.fromkeys(("cluster", "work_dir", "user_params"))
        self.config = StreamTaskConfig(
            output_writer=self.writer, rows=self.rows, cuts=self.cuts, num_workers=1, task_type="chief", task_index=0,
            tf_context=TFContext(self.rows, COLUMNS), **given,
        )  # fmt: skip

    def batches(self, size: int = 10) -> Any:
        return self.config.tf_context.batches(size)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    yield tmp_path
    assert not list(tmp_path.glob("saved-*")), "folders of saved states are removed"


def _sum_of(batch: Any) -> int:
    return int(batch["id"].numpy().sum())


def test_request_for_a_batch_finishes_the_one_before(folder: pathlib.Path) -> None:
    script, seen = Script(folder), []
    for batch in script.batches():
        seen.append((len(batch["id"]), list(script.writer.cuts)))
    assert seen == [(10, []), (10, [10]), (5, [10, 20])]
    script.cuts.end()
    assert script.writer.cuts == [10, 20, 25] and not script.writer.is_loose


def test_script_that_leaves_its_loop_has_finished_what_it_got(folder: pathlib.Path) -> None:
    script = Script(folder)
    next(iter(script.batches(5)))
    script.cuts.end()
    assert script.writer.cuts == [5], "of 15 rows that reached TensorFlow together"


def test_derived_dataset_finishes_the_batches_that_reached_tensorflow_together(
    folder: pathlib.Path,
) -> None:
    script, seen = Script(folder), []
    for _ in script.batches(5).map(lambda batch: batch["id"]):
        seen.append(list(script.writer.cuts))
    assert seen == [[], [], [], [15], [15]]


def test_batches_can_be_read_in_a_traced_function(folder: pathlib.Path) -> None:
    import tensorflow as tf

    script = Script(folder)
    batches = iter(script.batches())
    total = tf.function(lambda rows: tf.reduce_sum(next(rows)["id"]))
    assert [int(total(batches)) for _ in range(3)] == [
        sum(range(10)),
        sum(range(10, 20)),
        sum(range(20, 25)),
    ]
    assert script.writer.cuts == [10, 20] or script.writer.cuts == [10], (
        "a group of batches at a time"
    )
    script.cuts.end()
    assert script.writer.cuts[-1] == 20, (
        "TensorFlow may have taken the last batch ahead of the script"
    )


def test_commits_count_from_the_first_one_on(folder: pathlib.Path) -> None:
    script = Script(folder, commits=True)
    for number, _ in enumerate(script.batches(5)):
        if number == 2:
            script.config.commit(12)
    script.cuts.end()
    assert script.writer.cuts == [5, 10, 12]


def test_script_that_announces_its_commits_keeps_all_rows_before_the_first(
    folder: pathlib.Path,
) -> None:
    script = Script(folder, commits=True)
    script.config.commit(0)
    list(script.batches(5))
    assert script.writer.cuts == []
    script.config.commit(25)
    script.cuts.end()
    assert script.writer.cuts == [25]


def test_examples_of_a_script_that_announces_its_commits_wait_for_them(
    folder: pathlib.Path,
) -> None:
    script = Script(folder, commits=True)
    script.config.commit(0)
    assert len(list(script.config.dataset_fn())) == 25 and not script.writer.is_loose


def test_second_dataset_does_not_change_the_size_of_batches(folder: pathlib.Path) -> None:
    script = Script(folder)
    batches = iter(script.batches(5))
    next(batches)
    assert not list(script.batches(25))
    next(batches)
    assert script.writer.cuts == [5]


@pytest.mark.parametrize(
    "read",
    [lambda each: each.dataset_fn(), lambda each: each.tf_context.batches(5, shuffle_rows=20)],
)
def test_rows_that_tensorflow_buffers_lead_to_no_cuts(folder: pathlib.Path, read: Any) -> None:
    script = Script(folder)
    assert len(list(read(script.config))) >= 5
    script.cuts.end()
    assert script.writer.is_loose and script.writer.cuts == []


def test_reading_ahead_is_warned_about_once(
    folder: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script(folder)
    for _ in script.batches(1):
        pass
    assert not caplog.records
    script = Script(folder, ends=False)
    ahead = iter(script.batches(5).prefetch(10))
    next(ahead)
    script.feed.chunk(25)
    script.feed.end()
    wait_until(lambda: 26 in script.writer.cuts, "rows that the script has not got were passed")
    list(ahead)
    assert sum("read ahead" in record.message for record in caplog.records) == 1


def test_thread_that_hands_batches_on_is_warned_about(
    folder: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script(folder)
    script.config.checkpoint(print, print)
    thread = threading.Thread(target=lambda: list(script.batches(5)))
    thread.start()
    thread.join()
    assert sum("a thread of its own" in record.message for record in caplog.records) == 1


def _learner() -> tuple[dict[str, int], Any, Any]:
    state = {"sum": 0}

    def save(folder: str) -> None:
        (pathlib.Path(folder) / "sum").write_text(str(state["sum"]))

    def restore(folder: str) -> None:
        state["sum"] = int((pathlib.Path(folder) / "sum").read_text())

    return state, save, restore


def test_state_is_saved_between_batches_and_restored(folder: pathlib.Path) -> None:
    script, (state, save, restore) = Script(folder), _learner()
    checkpoint = script.config.checkpoint(save, restore, every_rows=10)
    assert not checkpoint.is_restored
    for batch in script.batches(5):
        state["sum"] += _sum_of(batch)
    script.cuts.end()
    assert script.writer.cuts == [10, 20, 25] and list(script.writer.states) == [10, 20, 25]
    for rows, saved in script.writer.states.items():
        again, (found, save, restore) = Script(folder, saved), _learner()
        assert again.config.checkpoint(save, restore).is_restored and found["sum"] == sum(
            range(rows)
        )


def test_state_is_saved_when_many_bytes_or_seconds_have_passed(folder: pathlib.Path) -> None:
    for task in ({"most_unsaved": 2}, {"save_every_ms": 0}):
        script, (_, save, restore) = Script(folder, **task), _learner()
        script.config.checkpoint(save, restore)
        list(script.batches())
        assert script.writer.cuts[:2] == [10, 20]


@pytest.mark.parametrize("every_ms", [0, 3_600_000], ids=["models too", "models later"])
def test_state_is_saved_while_no_rows_come(folder: pathlib.Path, every_ms: int) -> None:
    task = {"save_every_ms": 100, "publish_every_ms": every_ms}
    script, (_, save, restore) = Script(folder, ends=False, publish=Models(), **task), _learner()
    script.config.checkpoint(save, restore, export=save)

    def saved() -> None:
        wait_until(
            lambda: 20 in script.writer.states, "the rows are saved, though no further batch comes"
        )
        script.feed.end()

    waiter = threading.Thread(target=saved)
    waiter.start()
    assert len(list(script.batches())) == 3
    waiter.join()
    assert script.writer.cuts[-1] == 20


def test_commit_saves_the_state_while_no_rows_come(folder: pathlib.Path) -> None:
    script, (_, save, restore) = Script(folder, ends=False, save_every_ms=100), _learner()
    script.config.checkpoint(save, restore)
    for number, _ in enumerate(script.config.dataset_fn(), 1):
        script.config.commit(1)
        if number == 25:
            break
    assert 25 in script.writer.states


def test_commit_is_a_place_to_save_for_a_derived_dataset(folder: pathlib.Path) -> None:
    script, (state, save, restore) = Script(folder), _learner()
    script.config.checkpoint(save, restore, every_rows=10)
    for ids in script.batches(5).map(lambda batch: batch["id"]):
        state["sum"] += int(ids.numpy().sum())
        script.config.commit(5)
    assert script.writer.cuts == [10, 20]


def test_state_is_saved_with_all_rows_that_it_has_learnt(folder: pathlib.Path) -> None:
    script, (_, save, restore) = Script(folder, save_every_ms=0), _learner()
    fails = [True]

    def save_later(path: str) -> None:
        if fails.pop() if fails else False:
            raise OSError("no room")
        save(path)

    script.config.checkpoint(save_later, restore)
    batches = iter(script.batches())
    for _ in range(2):
        next(batches)
    script.config.commit(5)
    assert list(script.writer.states) == [10], "the first batch was finished before the commit"


def test_derived_dataset_without_commits_is_refused(folder: pathlib.Path) -> None:
    script, (_, save, restore) = Script(folder), _learner()
    script.config.checkpoint(save, restore)
    with pytest.raises(
        Exception,
        match=r"15 rows have been read, and only 0 are known to be learnt.*commit\(rows\) after each batch",
    ):
        list(script.batches(5).map(lambda batch: batch["id"]))


def test_failed_save_keeps_the_last_one_and_is_an_error_at_the_end(
    folder: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    script, (state, save, restore) = Script(folder), _learner()

    def fails(folder: str) -> None:
        save(folder)
        if state["sum"] > 45:
            raise OSError("the disk is full")

    script.config.checkpoint(fails, restore, every_rows=10)
    for batch in script.batches():
        state["sum"] += _sum_of(batch)
    assert script.writer.cuts == [10]
    assert (
        "could not be saved after 20 rows, so the one after 10 rows stays: OSError: the disk is full"
        in caplog.text
    )
    with pytest.raises(
        StateError,
        match="could not be saved since row 10, and 25 rows have been learnt: OSError: the disk",
    ):
        script.cuts.end()


def test_saves_that_fail_for_too_many_bytes_fail_the_script(folder: pathlib.Path) -> None:
    script = Script(folder, most_unsaved=1)
    script.config.checkpoint(lambda folder: 1 / 0, print)
    with pytest.raises(
        StateError,
        match="could not be saved since row 0, and 10 rows have been learnt: ZeroDivisionError",
    ):
        list(script.batches())


def test_state_that_is_too_large_is_not_saved(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuts_module, "MOST_STATE_BYTES", 100)
    script, (_, save, restore) = Script(folder), _learner()
    script.config.checkpoint(save, restore)
    list(script.batches())
    with pytest.raises(StateError, match="expected at most 100 bytes of state, got "):
        script.cuts.end()


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda script: next(iter(script.batches())), "before the first batch is read"),
        (lambda script: script.config.checkpoint(print, print), "was called before"),
    ],
)
def test_checkpoint_that_comes_too_late_is_refused(
    folder: pathlib.Path, prepare: Any, message: str
) -> None:
    script = Script(folder)
    prepare(script)
    with pytest.raises(StateError, match=message):
        script.config.checkpoint(print, print)


def test_checkpoint_is_refused_in_a_group(folder: pathlib.Path) -> None:
    with pytest.raises(
        StateError, match="expected a script without a group.*numWorkers=1 and numPSs=0"
    ):
        Script(folder, is_alone=False).config.checkpoint(print, print)


def test_checkpoint_refuses_objects_without_a_state(folder: pathlib.Path) -> None:
    with pytest.raises(TypeError, match=r"expected a Keras model, .* got dict and NoneType"):
        Script(folder).config.checkpoint({})


def _trained(script: Script, how: str, checkpoint: bool = True) -> Any:
    import tensorflow as tf

    tf.random.set_seed(7)
    model = tf.keras.Sequential(
        [tf.keras.layers.Input((1,)), tf.keras.layers.Dense(3), tf.keras.layers.Dense(1)]
    )
    model.compile(tf.keras.optimizers.Adam(0.1), "mse")
    kept = script.config.checkpoint(model, every_rows=10) if checkpoint else None

    def example(batch: Any) -> Any:
        ids = tf.cast(batch["id"], tf.float32)[:, None] / 25
        return ids, 3 * ids

    if how != "loop":
        callbacks = [] if kept is None else [kept.callback()]
        steps = {"steps_per_epoch": 2, "epochs": 2} if how == "epochs" else {}
        model.fit(script.batches(5).map(example), callbacks=callbacks, verbose=0, **steps)
    else:
        for batch in script.batches(5):
            model.train_on_batch(*example(batch))
    variables = model.optimizer.variables  # a method of Keras 2
    variables = variables() if callable(variables) else variables
    return [
        value for variable in (*model.weights, *variables) for value in np.ravel(variable.numpy())
    ]


@pytest.mark.parametrize("how", ["fit", pytest.param("loop", marks=pytest.mark.long)])
def test_keras_model_goes_on_from_its_state_bit_for_bit(folder: pathlib.Path, how: str) -> None:
    script = Script(folder)
    expected = _trained(script, how)
    script.cuts.end()
    assert script.writer.cuts == [10, 20, 25]
    assert _trained(Script(folder, script.writer.states[10], first=10), how) == expected


def test_epochs_of_a_stream_count_on_and_end_in_the_midst_of_a_chunk(folder: pathlib.Path) -> None:
    script = Script(folder)
    _trained(script, "epochs")
    script.cuts.end()
    assert list(script.writer.states) == [10, 20], "two epochs of two batches of 25 rows"


class Models:
    """Notes what was published: the numbers in the exported file, and the text."""

    def __init__(self, fails: tuple[int, ...] = ()) -> None:
        self.found: list[tuple[str, str]] = []
        self._fails = fails

    def __call__(self, folder: str, learnt: str) -> None:
        if any(learnt == f"rows={rows}" for rows in self._fails):
            raise OSError("no room")
        self.found.append((pathlib.Path(folder, "sum").read_text(), learnt))


def test_models_are_published_between_batches_and_at_the_end(folder: pathlib.Path) -> None:
    models = Models()
    script, (state, save, restore) = Script(folder, publish=models, save_every_ms=0), _learner()
    script.config.checkpoint(save, restore, export=save)
    for batch in script.batches():
        state["sum"] += _sum_of(batch)
    script.cuts.end()
    assert models.found == [(str(sum(range(end))), f"rows={end}") for end in (10, 20, 25)]
    metrics = script.config.reports.latest().metrics
    assert metrics["rows_learnt"] == 25 and {"seconds_since_save", "seconds_since_publish"} <= set(
        metrics
    )

    models = Models()
    again, (state, save, restore) = (
        Script(folder, script.writer.states[10], publish=models, first=10, publish_every_ms=10**9),
        _learner(),
    )
    again.config.checkpoint(save, restore, export=save)
    for batch in again.batches():
        state["sum"] += _sum_of(batch)
    again.cuts.end()
    assert models.found == [(str(sum(range(25))), "rows=25")], "rows of the earlier process count"


def test_model_that_a_storage_refuses_leaves_the_script_running(
    folder: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    models = Models(fails=(20,))
    script, (_, save, restore) = Script(folder, publish=models), _learner()
    script.config.checkpoint(save, restore, export=save)
    assert len(list(script.batches())) == 3
    assert [learnt for _, learnt in models.found] == ["rows=10", "rows=25"]
    assert (
        "the model of 20 rows could not be published, and the last one stays: no room"
        in caplog.text
    )


def test_first_model_that_cannot_be_published_fails_the_script_by_name(
    folder: pathlib.Path,
) -> None:
    script, (_, save, restore) = Script(folder, publish=Models(fails=(10,))), _learner()
    script.config.checkpoint(save, restore, export=save)
    with pytest.raises(
        StateError, match="publishDir: the first model could not be published: no room"
    ):
        list(script.batches())


def test_publishing_without_a_model_is_refused_by_name(folder: pathlib.Path) -> None:
    script, (_, save, restore) = Script(folder, publish=Models()), _learner()
    with pytest.raises(
        StateError, match=r"publishDir: expected a Keras model, or a function .* export="
    ):
        script.config.checkpoint(save, restore)
    with pytest.raises(
        ValueError, match=r"publishDir: expected a script that calls task_config\.checkpoint"
    ):
        list(Script(folder, publish=Models()).batches())
    with pytest.raises(
        Exception, match=r"publishDir: expected a script that calls task_config\.checkpoint"
    ):
        list(Script(folder, publish=Models()).config.dataset_fn())


def test_learnt_rows_are_named_by_number_and_event_time() -> None:
    assert str(Learnt(3)) == "rows=3"
    assert str(Learnt(3, 1_700_000_000_123_456)) == "rows=3 until=2023-11-14T22:13:20.123"


def test_damaged_state_is_refused_by_name(folder: pathlib.Path) -> None:
    script, (_, save, restore) = Script(folder), _learner()
    script.config.checkpoint(save, restore)
    list(script.batches())
    script.cuts.end()
    whole = script.writer.states[25]
    for damaged in (whole[:1024], whole[:700], b"x" * 600 + bytes(1024)):
        with pytest.raises(
            StateError,
            match=r"the state of the script in Flink's checkpoint or savepoint is damaged: .* another",
        ):
            Script(folder, damaged).config.checkpoint(save, restore)


def test_links_and_odd_names_of_a_saved_folder_are_restored_as_files(folder: pathlib.Path) -> None:
    def save(path: str) -> None:
        (pathlib.Path(path) / "w:0").write_text("one")
        os.link(pathlib.Path(path) / "w:0", pathlib.Path(path) / "2")
        (pathlib.Path(path) / "latest").symlink_to("2")

    found: list[str] = []

    def restore(path: str) -> None:
        found.extend((pathlib.Path(path) / name).read_text() for name in ("w:0", "2", "latest"))

    script = Script(folder)
    script.config.checkpoint(save, restore)
    list(script.batches())
    script.cuts.end()
    assert Script(folder, script.writer.states[25]).config.checkpoint(save, restore).is_restored
    assert found == ["one"] * 3


def test_failed_save_is_tried_again_while_no_rows_come(folder: pathlib.Path) -> None:
    script, (_, save, restore) = Script(folder, ends=False, save_every_ms=0), _learner()
    tries = []

    def fails_once(path: str) -> None:
        tries.append(path)
        if len(tries) == 1:
            raise OSError("no room")
        save(path)
        script.feed.end()

    script.config.checkpoint(fails_once, restore)
    assert len(list(script.batches(25))) == 1
    assert script.writer.cuts == [25] and len(tries) == 2


def test_shuffled_rows_are_refused_with_a_saved_state(folder: pathlib.Path) -> None:
    script, (_, save, restore) = Script(folder), _learner()
    script.config.checkpoint(save, restore)
    with pytest.raises(
        Exception,
        match=r"task_config\.checkpoint: expected batches in the order of the stream, got shuffle_rows",
    ):
        list(script.config.tf_context.batches(5, shuffle_rows=10))


def test_state_is_announced_before_rows_are_read_from_a_dataset_of_examples(
    folder: pathlib.Path,
) -> None:
    script, (_, save, restore) = Script(folder), _learner()
    list(script.config.dataset_fn())
    with pytest.raises(StateError, match="call it before the first batch is read"):
        script.config.checkpoint(save, restore)
