"""The table that a predictor makes, and its function. No job runs here; jobs with models are in
tests/e2e.
"""

from __future__ import annotations

import itertools
import threading
import types as python_types
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import numpy as np
import psutil
import pyarrow as pa
import pytest
from google.protobuf import json_format

from akdl.wire import Description, Serving, TableColumn
from bridge.codec.ipc import read_batch, write_batch
from bridge.exceptions import RowError, TaskError
from bridge.flink.elements import Element
from bridge.flink.time_attributes import PROCTIME, ROWTIME, time_attributes
from bridge.schema import Schema
from bridge.serving.model_process import ModelSettings
from bridge.serving.outputs import PredictionSettings
from bridge.serving.prediction import RequestSize, _Predict, kinds_by_key, predict_table
from operators import useLocalEnv
from tests.akdl.serving import models
from tests.support.deadline import DEADLINE_S, SLOWER
from tests.support.leftovers import suspend, task_processes, wait_until

pytestmark = pytest.mark.flink
_groups = itertools.count()


@pytest.fixture(scope="module")
def table_env() -> Any:
    made = useLocalEnv(1).stenv
    made.execute_sql(
        "CREATE TEMPORARY TABLE events (x FLOAT, id BIGINT NOT NULL, t TIMESTAMP(3), p AS PROCTIME(), "
        "WATERMARK FOR t AS t) WITH ('connector' = 'datagen')"
    )
    return made


def predicted(
    table_env: Any,
    result: tuple[tuple[str, bool], ...],
    sql: str = "SELECT * FROM events",
    **changes: Any,
) -> Any:
    settings = PredictionSettings(
        ModelSettings("TestOp", f"predicted_{next(_groups)}", "{}", "secret"), "/models/one", Schema.parse("x FLOAT"),
        Schema.parse("y ARRAY<FLOAT>"), result, **changes,
    )  # fmt: skip
    return predict_table(table_env, table_env.sql_query(sql), settings)


def types(table: Any) -> dict[str, str]:
    schema = table._j_table.getResolvedSchema()
    return {
        name: str(type_)
        for name, type_ in zip(schema.getColumnNames(), schema.getColumnDataTypes())
    }


def test_columns_of_the_result_have_the_order_that_is_asked_for(table_env: Any) -> None:
    table = predicted(table_env, (("id", False), ("y", True), ("x", False)))
    assert types(table) == {"id": "BIGINT NOT NULL", "y": "ARRAY<FLOAT>", "x": "FLOAT"}
    assert list(types(table)) == ["id", "y", "x"]


def test_columns_that_do_not_stay_are_not_carried(table_env: Any) -> None:
    """The INTERVAL could not be."""
    assert list(
        types(predicted(table_env, (("y", True),), "SELECT *, INTERVAL '1' DAY AS odd FROM events"))
    ) == ["y"]


def test_the_column_of_errors_is_the_last(table_env: Any) -> None:
    table = predicted(table_env, (("y", True), ("id", False)), error_column="what is wrong")
    assert (
        list(types(table)) == ["y", "id", "what is wrong"]
        and types(table)["what is wrong"] == "STRING"
    )


def test_time_attributes_of_columns_that_stay_are_kept(table_env: Any) -> None:
    table = predicted(table_env, (("p", False), ("y", True), ("t", False)), error_column="error")
    assert list(types(table)) == ["p", "y", "t", "error"]
    assert time_attributes(table) == {"p": PROCTIME, "t": ROWTIME}


def test_event_time_of_a_dropped_column_is_not_kept(table_env: Any) -> None:
    assert time_attributes(predicted(table_env, (("y", True), ("id", False)))) == {}


def test_updates_pass_through_a_prediction_as_updates(table_env: Any) -> None:
    counted = "SELECT CAST(COUNT(*) AS FLOAT) AS x, id FROM events GROUP BY id"
    table_env.to_changelog_stream(predicted(table_env, (("id", False), ("y", True)), counted))
    with pytest.raises(Exception, match="(?s)doesn't support consuming update"):
        table_env.to_data_stream(predicted(table_env, (("id", False), ("y", True)), counted))


def test_the_key_of_updates_is_kept(table_env: Any) -> None:
    """Else Flink refuses to write them into a table with that primary key."""
    counted = "SELECT CAST(COUNT(*) AS FLOAT) AS x, id, MAX(t) AS t FROM events GROUP BY id"

    def key(result: tuple[tuple[str, bool], ...], sql: str = counted) -> list[str]:
        found = predicted(table_env, result, sql)._j_table.getResolvedSchema().getPrimaryKey()
        return list(found.get().getColumns()) if found.isPresent() else []

    assert key((("id", False), ("y", True))) == ["id"] and key((("y", True),)) == []
    assert (
        key(
            (("t", False), ("y", True)),
            "SELECT CAST(COUNT(*) AS FLOAT) AS x, t FROM events GROUP BY t",
        )
        == []
    )  # null may be one
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE latest (id BIGINT, y ARRAY<FLOAT>, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'blackhole')"
    )
    table_env.create_temporary_view(
        "counted", predicted(table_env, (("id", False), ("y", True)), counted)
    )
    assert "latest" in table_env.explain_sql("INSERT INTO latest SELECT id, y FROM counted")


@pytest.mark.parametrize(
    ("keys", "kinds", "expected"),
    [
        ([1, 1, 2], [1, 2, 0], [1, 2, 0]),  # an update stays
        ([1, 2], [1, 2], [3, 2]),  # HAVING took the other row of 1, and that of 2
        ([1, 1], [0, 1], [0, 3]),  # the other row may be in the next batch, which then inserts it
        ([None, None], [1, 2], [3, 2]),
        ([], [], []),
    ],
)
def test_a_row_whose_update_a_filter_drops_is_deleted(
    keys: list[Any], kinds: list[int], expected: list[int]
) -> None:
    batch = pa.record_batch(
        [pa.array(keys, pa.int64()), pa.array([[each] for each in keys], pa.list_(pa.int64()))],
        names=["k", "list"],
    )
    assert list(kinds_by_key(batch, bytes(kinds), ["k"])) == expected
    lists = list(kinds_by_key(batch, bytes(kinds), ["k", "list"]))
    assert lists == [3 if kind == 1 else kind for kind in kinds], "cells of lists are not compared"


class Predicting:
    """The function of a predictor, fed with chunks; p is twice the sum of the three numbers
    in x.
    """

    def __init__(self, **changes: Any) -> None:
        inputs = [TableColumn(name="x", type="ARRAY<FLOAT>"), TableColumn(name="k", type="BIGINT")]
        serving = json_format.MessageToJson(
            Serving(
                input_columns=inputs,
                output_columns=[TableColumn(name="p", type="DOUBLE")],
                **changes.pop("serving", {}),
            )
        )
        settings = PredictionSettings(
            ModelSettings("TestOp", serving=serving, token="secret", **{"group": f"predicting_{next(_groups)}", **changes.pop("process", {})}),
            changes.pop("model", None) or models.scaled(2.0), Schema.parse("x ARRAY<FLOAT>, k BIGINT"), Schema.parse("p DOUBLE"),
            (("k", False), ("p", True)), **changes,
        )  # fmt: skip
        self.function = _Predict(
            settings, ["k", "p", *([settings.error_column] if settings.error_column else [])], []
        )
        context: Any = python_types.SimpleNamespace(
            get_index_of_this_subtask=lambda: 0,
            get_attempt_number=lambda: 0,
            get_metrics_group=lambda: None,
        )
        self.function.open(context)

    def chunk(self, *keys: int | None, kinds: bytes | None = None, x: float = 1.0) -> Iterator[Any]:
        cells = pa.array(
            [None if key is None else [x, key, 0.0] for key in keys], pa.list_(pa.float32())
        )
        batch = pa.record_batch(
            [cells, pa.array([key or 0 for key in keys], pa.int64())], names=["x", "k"]
        )
        return self.element(Element.CHUNK, kinds, write_batch(batch))

    def all_out(self) -> Iterator[Any]:
        return self.element(Element.ALL_OUT, None, b"")

    def element(self, *element: Any) -> Iterator[Any]:
        for out in self.function.process_element(element, None):
            kind, kinds, content = out.values
            assert kind == Element.CHUNK
            yield read_batch(content).to_pydict(), kinds


@pytest.fixture
def predicting() -> Iterator[Any]:
    made: list[Predicting] = []

    def make(**changes: Any) -> Predicting:
        made.append(Predicting(**changes))
        return made[-1]

    yield make
    for each in made:
        each.function.close()
    wait_until(lambda: not task_processes(), "the processes have ended")


def test_processes_of_a_worker_that_has_ended_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def join(settings: PredictionSettings, copy: int) -> Mock:
        made.append(Mock(description=Description(), batch_size=1))
        return made[-1]

    monkeypatch.setattr("bridge.serving.prediction.model_process", join)
    monkeypatch.setattr("bridge.serving.prediction.close_with_worker", lambda close: close())
    Predicting(process={"copies": 2}, model="unused")
    assert [each.close.call_count for each in made] == [1, 1]


@pytest.mark.tf
def test_chunks_under_way_are_bounded_and_leave_in_order(
    predicting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one process, whose import of TensorFlow costs most of the test."""
    function = predicting()
    (process,) = task_processes()
    three_chunks_are_under_way_and_leave_in_their_order(function, process)
    with monkeypatch.context() as patch:
        patch.setattr("bridge.serving.prediction._MOST_SENT_BYTES", 100)
        large_chunks_are_under_way_alone(function, process)
    a_chunk_is_sent_in_requests_that_the_model_answers_in_a_second(function)
    the_end_leaves_behind_all_results(function, process)


def three_chunks_are_under_way_and_leave_in_their_order(
    function: Predicting, process: psutil.Process
) -> None:
    suspend(process)
    for number in range(3):
        assert list(function.chunk(number, kinds=bytes([number]))) == [], (
            "it does not wait for the answer"
        )
    found: list[Any] = []
    fourth = threading.Thread(target=lambda: found.extend(function.chunk(3)))
    fourth.start()
    fourth.join(0.2)
    assert fourth.is_alive() and found == [], "a fourth one waits for the first"
    process.resume()
    fourth.join(2 * DEADLINE_S)
    found += function.all_out()
    assert found == [
        ({"k": [number], "p": [2.0 * (1 + number)]}, bytes([number]) if number < 3 else None)
        for number in range(4)
    ]
    assert list(function.all_out()) == []


def large_chunks_are_under_way_alone(function: Predicting, process: psutil.Process) -> None:
    many = range(100)
    assert [
        rows["k"]
        for rows, _ in [*function.chunk(*many), *function.chunk(*many), *function.all_out()]
    ] == [[*many]] * 2
    suspend(process)
    list(function.chunk(*many))
    second = threading.Thread(target=lambda: list(function.chunk(1)))
    second.start()
    second.join(0.2)
    assert second.is_alive()
    process.resume()
    second.join(2 * DEADLINE_S)
    list(function.all_out())


def a_chunk_is_sent_in_requests_that_the_model_answers_in_a_second(function: Predicting) -> None:
    function.function._size = RequestSize(2)
    kinds = bytes(each % 4 for each in range(100))
    found = [*function.chunk(*range(100), kinds=kinds), *function.all_out()]
    assert [len(rows["k"]) for rows, _ in found][:2] == [2, 2], "the first ones are short"
    assert [key for rows, _ in found for key in rows["k"]] == [*range(100)]
    assert [cell for rows, _ in found for cell in rows["p"]] == [
        2.0 * (1 + key) for key in range(100)
    ]
    assert b"".join(each for _, each in found) == kinds


def the_end_leaves_behind_all_results(function: Predicting, process: psutil.Process) -> None:
    suspend(process)  # or the result might be there already
    assert list(function.chunk(0)) == []
    process.resume()
    end = [
        each.values for each in function.function.process_element((Element.END, None, b""), None)
    ]
    assert [kind for kind, _, _ in end] == [Element.CHUNK, Element.END]


@pytest.mark.long
@pytest.mark.tf
@pytest.mark.fault(
    "jobs",
    "When one of several processes with the model is killed, the task fails and no row leaves twice",
)
def test_chunks_go_to_the_process_with_the_least_work(predicting: Any) -> None:
    function = predicting(process={"copies": 2})
    processes = task_processes()
    assert len(processes) == 2
    for each in processes:
        suspend(each)
    for number in range(6):
        assert list(function.chunk(number)) == []
    sent = [to for _, _, _, to in function.function._sent]
    assert [sent.count(each) for each in function.function._processes] == [3, 3]
    processes[0].resume()  # its rows are ready, but leave in their order
    first = [
        request for _, _, request, to in function.function._sent if to._pid == processes[0].pid
    ]
    wait_until(
        lambda: all(request.is_done for request in first), "one of the processes has answered"
    )
    processes[1].resume()
    assert [rows["k"] for rows, _ in function.all_out()] == [[number] for number in range(6)]
    # gets the next chunk
    (idle,) = [each for each in processes if each.pid == function.function._processes[0]._pid]
    idle.kill()
    psutil.wait_procs([idle], 60)
    with pytest.raises(TaskError, match="the process that serves the model has ended"):
        print([*function.chunk(1), *function.chunk(2), *function.all_out()])


@pytest.mark.long
@pytest.mark.tf
def test_bad_row_fails_its_chunk_or_fills_the_error_column(predicting: Any) -> None:
    """The first chunk leaves, once; with a column for errors all do."""
    (function, with_column) = predicting(), predicting(error_column="e")
    processes = task_processes()
    for process in processes:
        suspend(process)
    for each in (function, with_column):
        assert [list(each.chunk(*keys)) for keys in ([1], [2, None], [3])] == [[], [], []]
    for process in processes:
        process.resume()
    out = function.all_out()
    assert next(out)[0] == {"k": [1], "p": [4.0]}
    with pytest.raises(RowError, match="row 1 of a batch cannot be predicted"):
        next(out)
    function.function.close()  # as Flink does, with a request under way
    rows = pa.Table.from_pylist(
        [row for chunk, _ in with_column.all_out() for row in pa.table(chunk).to_pylist()]
    ).to_pydict()
    assert rows["k"] == [1, 2, 0, 3] and rows["p"] == [4.0, 6.0, None, 8.0]
    assert [error is None for error in rows["e"]] == [True, True, False, True]


@pytest.mark.tf
@pytest.mark.fault(
    "jobs",
    "A model process that is killed with batches under way fails the task, and no row leaves twice",
)
def test_a_process_killed_with_requests_under_way_fails_the_task(predicting: Any) -> None:
    function = predicting()
    assert list(function.chunk(7)) + list(function.all_out()) == [({"k": [7], "p": [16.0]}, None)]
    (process,) = task_processes()
    suspend(process)
    for number in range(3):
        assert list(function.chunk(number)) == []
    process.kill()
    killed = r"the process that serves the model has ended \(killed by signal 9 \(SIGKILL: often"
    with pytest.raises(TaskError, match=killed):
        list(function.all_out())


@pytest.mark.tf
def test_rows_after_a_newer_model_are_never_predicted_by_an_older_one(predicting: Any) -> None:
    """Requests are computed side by side, so an older model may answer the later one of two."""
    function = predicting()
    assert [*function.chunk(1), *function.all_out()] == [({"k": [1], "p": [4.0]}, None)]
    function.function._processes[0].replace(models.scaled(3.0), "newer")
    assert [rows["p"] for rows, _ in [*function.chunk(1), *function.all_out()]] == [[6.0]]
    processes = task_processes()
    for process in processes:
        suspend(process)
    assert list(function.chunk(2)) == []
    for process in processes:
        process.resume()
    sent = function.function._sent
    answer = sent[0][2].call.result(2 * DEADLINE_S)
    # as if the older one had done it
    answer.model, answer.rows.columns[0].values = 1, np.array([0.0], "f8").tobytes()
    assert [rows["p"] for rows, _ in function.all_out()] == [[9.0]]


@pytest.mark.tf
@pytest.mark.fault(
    "hosts", "A task goes on after another one has started a fresh process for its stalled batch"
)
def test_a_fresh_process_counts_its_models_from_the_first_one(predicting: Any) -> None:
    function = predicting()
    # as if this task had seen four newer models in the process before
    function.function._model = 5
    assert [*function.chunk(1), *function.all_out()] == [({"k": [1], "p": [4.0]}, None)]
    assert function.function._model == 1


# The limit is time enough for the first call of a model, beside other tests.
LIMIT_S = 4.0 * SLOWER
ENDLESS = {"serving": {"infer_batch_size": 2, "infer_timeout": LIMIT_S}}


@pytest.mark.slow
@pytest.mark.tf
@pytest.mark.fault(
    "data",
    "A row with which the model does not end goes to errorCol, and the rows next to it are predicted",
)
def test_row_that_the_model_does_not_finish_goes_to_the_error_column(predicting: Any) -> None:
    """Another task of the host has batches under way, and loses none of them."""
    process = {"group": f"endless_{next(_groups)}"}
    settings: dict[str, Any] = {**ENDLESS, "process": process, "model": models.endless(9)}
    function, beside = predicting(**settings, error_column="e"), predicting(**settings)
    (first,) = task_processes()
    found = [*function.chunk(1), *function.chunk(*range(2, 12)), *function.chunk(20, 21)]
    found += function.all_out()
    chunks = [rows for rows, _ in found]
    keys = [key for rows in chunks for key in rows["k"]]
    assert keys == [1, *range(2, 12), 20, 21]
    assert [cell for rows in chunks for cell in rows["p"]] == [
        None if key == 9 else 2.0 * (1 + key) for key in keys
    ]
    errors = {key: error for rows in chunks for key, error in zip(rows["k"], rows["e"]) if error}
    assert errors == {9: f"the model does not finish with it within {LIMIT_S:g} s (inferTimeout)"}
    (last,) = task_processes()
    assert last.pid != first.pid
    assert [*beside.chunk(3), *beside.all_out()] == [({"k": [3], "p": [8.0]}, None)]


@pytest.mark.long
@pytest.mark.tf
def test_a_model_of_a_stream_is_not_tried_again(predicting: Any) -> None:
    """A fresh process would have the first model."""
    process = {"restarts": False}
    function = predicting(**{**ENDLESS, "process": process, "model": models.endless(9)})
    with pytest.raises(
        TaskError,
        match=rf"TestOp: the model did not finish 1 rows within {LIMIT_S:g} s \(inferTimeout\), and its process",
    ):
        print([*function.chunk(9), *function.all_out()])
