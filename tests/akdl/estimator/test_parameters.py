"""The table of parameters and its rules."""

from __future__ import annotations

from typing import Any

import pytest

from akdl.estimator.parameters import with_defaults
from akdl.user_code.config_file import ConfigError


def test_with_defaults_fills_in_every_parameter() -> None:
    assert with_defaults() == {
        "save_checkpoints_steps": None,
        "save_checkpoints_secs": 600,
        "keep_checkpoint_max": 5,
        "log_step_count_steps": 100,
        "train_max_steps": 10000,
        "eval_steps": 100,
        "eval_start_delay_secs": 120,
        "eval_throttle_secs": 600,
    }


def test_given_values_win_and_other_keys_go_along() -> None:
    params = with_defaults({"layers": [1, 2], "eval_steps": None, "name": {"a": None}})
    assert params["eval_steps"] is None
    assert (params["layers"], params["name"]) == ([1, 2], {"a": None})


@pytest.mark.parametrize(
    ("given", "steps", "secs"),
    [
        ({}, None, 600),
        ({"save_checkpoints_steps": 50}, 50, None),
        ({"save_checkpoints_steps": 50, "save_checkpoints_secs": None}, 50, None),
        ({"save_checkpoints_steps": None}, None, 600),
        ({"save_checkpoints_secs": 0.5}, None, 0.5),
        ({"save_checkpoints_secs": None}, None, None),
    ],
)
def test_checkpoints_are_saved_by_steps_or_by_seconds(
    given: dict[str, Any], steps: int | None, secs: float | None
) -> None:
    params = with_defaults(given)
    assert (params["save_checkpoints_steps"], params["save_checkpoints_secs"]) == (steps, secs)
    assert with_defaults(params) == params, "complete parameters stay as they are"


def test_saving_by_steps_and_by_seconds_exclude_each_other() -> None:
    with pytest.raises(
        ConfigError, match="expected one of the two, got 50 and 60; remove one or set it to null"
    ):
        with_defaults({"save_checkpoints_secs": 60, "save_checkpoints_steps": 50})


@pytest.mark.parametrize(
    ("given", "steps", "secs"),
    [
        ({}, 1000, None),
        ({"save_checkpoints_steps": None}, 1000, None),
        ({"save_checkpoints_steps": 5}, 5, None),
        ({"save_checkpoints_secs": None}, None, None),
    ],
)
def test_workers_in_step_save_by_steps(
    given: dict[str, Any], steps: int | None, secs: float | None
) -> None:
    params = with_defaults(given, in_step=True)
    assert (params["save_checkpoints_steps"], params["save_checkpoints_secs"]) == (steps, secs)
    assert with_defaults(params, in_step=True) == params
    with pytest.raises(
        ConfigError,
        match="workers in step save by steps, got 60; set save_checkpoints_steps instead",
    ):
        with_defaults({**given, "save_checkpoints_secs": 60}, in_step=True)


def test_misspelled_parameter_is_refused_with_the_nearest_name() -> None:
    for key, name in (
        ("train_max_step", "train_max_steps"),
        ("Eval-Steps", "eval_steps"),
        ("save_checkpoint_steps", "save_checkpoints_steps"),
    ):
        with pytest.raises(ConfigError, match=f"{key}: unknown parameter; did you mean {name}"):
            with_defaults({key: 5})
    own = {"train_max_epochs": 3, "batch_size": 7, "steps": 1, "ALINK:bc_1": "text"}
    assert with_defaults(own) == {**with_defaults(), **own}


def test_a_number_of_steps_may_be_written_as_a_float() -> None:
    params = with_defaults({"train_max_steps": 1e4, "rate": 1.0})
    assert params["train_max_steps"] == 10000 and isinstance(params["train_max_steps"], int)
    assert isinstance(params["rate"], float), "it is not ours"
    with pytest.raises(ConfigError, match=r"train_max_steps: expected a whole number .*, got 1.5"):
        with_defaults({"train_max_steps": 1.5})


def test_all_wrong_values_are_listed_in_one_error() -> None:
    wrong = {
        "save_checkpoints_secs": 0,
        "keep_checkpoint_max": -1,
        "log_step_count_steps": 0,
        "train_max_steps": "100",
        "eval_steps": True,
        "eval_start_delay_secs": None,
        "eval_throttle_secs": -0.5,
    }
    with pytest.raises(ConfigError) as caught:
        with_defaults(wrong)
    assert [one.split(":")[0] for one in caught.value.mistakes] == list(wrong)
    assert (
        'train_max_steps: expected a whole number of 1 or more, or null to train until the rows end, got "100"'
        in str(caught.value)
    )


@pytest.mark.parametrize("keep", [None, 0, 3])
def test_number_of_checkpoints_may_be_null_or_0(keep: int | None) -> None:
    assert with_defaults({"keep_checkpoint_max": keep})["keep_checkpoint_max"] == keep
