"""What a table environment is set to, by whichever of the ways that Flink has for it."""

from __future__ import annotations

from typing import Any

import pytest
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import EnvironmentSettings, StreamTableEnvironment

from bridge.table_env import (
    described,
    groups_in,
    has_checkpoints,
    is_streaming,
    parallelism_of,
    uids,
)
from operators.flink.java import start_java

pytestmark = pytest.mark.flink


@pytest.fixture
def env() -> Any:
    start_java()
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.mark.parametrize("streaming", [True, False])
def test_is_streaming_follows_the_mode_of_the_environment(env: Any, streaming: bool) -> None:
    settings = (
        EnvironmentSettings.in_streaming_mode()
        if streaming
        else EnvironmentSettings.in_batch_mode()
    )
    assert (
        is_streaming(StreamTableEnvironment.create(env, environment_settings=settings)) is streaming
    )


def test_flink_streams_where_no_mode_is_chosen(env: Any) -> None:
    assert is_streaming(StreamTableEnvironment.create(env)) is True


def test_parallelism_is_that_of_the_execution_environment(env: Any) -> None:
    env.set_parallelism(3)
    assert parallelism_of(StreamTableEnvironment.create(env)) == 3


def test_checkpoints_are_off_at_first(env: Any) -> None:
    assert has_checkpoints(StreamTableEnvironment.create(env)) is False


def test_checkpoints_of_the_execution_environment_are_recognized(env: Any) -> None:
    table_env = StreamTableEnvironment.create(env)
    env.enable_checkpointing(1000)
    assert has_checkpoints(table_env) is True


def test_checkpoints_of_the_table_environment_are_recognized(env: Any) -> None:
    table_env = StreamTableEnvironment.create(env)
    table_env.get_config().set("execution.checkpointing.interval", "1 s")
    assert has_checkpoints(table_env) is True


class Environment:
    """Something to count in."""


def test_a_name_depends_on_operators_of_equal_class_and_script_alone() -> None:
    program, changed = Environment(), Environment()
    first, second = (uids(program, "StreamOp", "a b.py") for _ in range(2))
    uids(changed, "StreamOp", "other.py")
    uids(changed, "PredictOp", "model")
    again = uids(changed, "StreamOp", "a b.py")
    assert first("exchange") == again("exchange") == "akdl-StreamOp-a_b.py-1-exchange"
    assert len({first("exchange"), first("rows"), second("exchange"), second("rows")}) == 4


def test_groups_of_a_job_are_read_from_its_plan() -> None:
    names = [
        described("Op, main.py, addresses", "Op_1a"),
        described("Op, main.py", "Op_1a"),
        described("Predict", "Predict_2b"),
    ]
    descriptions = [
        "Source of a group of rows<br/>",
        f"{names[0]}<br/>+- {names[1]}<br/>",
        names[2],
    ]
    assert groups_in({"nodes": [{"description": each} for each in descriptions]}) == {
        "Op_1a",
        "Predict_2b",
    }
    assert groups_in({}) == set()
