"""Calling the functions of a user's module by the names of a config."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from akdl.training.user_functions import CallbackError, UserModule


def module(**functions: Any) -> ModuleType:
    made = ModuleType("user")
    vars(made).update(functions)
    return made


def nothing(*args: Any, **kwargs: Any) -> None: ...


def test_create_passes_arguments_of_the_config_by_name() -> None:
    user = UserModule(module(awf_create_model_fn=lambda name, size=3: (name, size)))
    assert user.create("awf_create_model_fn", {"model_args": {"name": "m"}}) == ("m", 3)


def test_create_batch_size_only_where_the_signature_has_it() -> None:
    def with_it(file: str, batch_size: int) -> tuple[str, int]:
        return file, batch_size

    config = {"train_data_args": {"file": "f"}}
    user = UserModule(module(awf_create_train_dataset_fn=with_it))
    assert user.create("awf_create_train_dataset_fn", config, batch_size=8) == ("f", 8)
    user = UserModule(module(awf_create_train_dataset_fn=lambda file: file))
    assert user.create("awf_create_train_dataset_fn", config, batch_size=8) == "f"


def test_create_names_missing_and_unknown_arguments() -> None:
    user = UserModule(module(awf_create_train_dataset_fn=lambda file, skip_head, dim: None))
    args = {"file": "f", "skip_head": True, "feat_num": 129}
    with pytest.raises(
        CallbackError,
        match=r"missing dim of awf_create_train_dataset_fn\(file, skip_head, dim\) in user; .*unknown argument feat_num",
    ):
        user.create("awf_create_train_dataset_fn", {"train_data_args": args})


def test_create_refuses_arguments_that_the_runner_passes() -> None:
    user = UserModule(module(awf_create_train_dataset_fn=lambda batch_size: None))
    with pytest.raises(CallbackError, match="batch_size of .* is passed by the runner: remove it"):
        user.create(
            "awf_create_train_dataset_fn", {"train_data_args": {"batch_size": 3}}, batch_size=8
        )


def test_create_passes_all_arguments_to_a_function_of_any_keywords() -> None:
    user = UserModule(module(awf_create_model_fn=lambda **options: options))
    assert user.create("awf_create_model_fn", {"model_args": {"a": 1}}) == {"a": 1}


def test_create_refuses_a_missing_callback() -> None:
    with pytest.raises(CallbackError, match="user has to define awf_create_model_fn"):
        UserModule(module()).create("awf_create_model_fn", {})


def test_create_warns_of_a_name_near_that_of_a_callback(caplog: pytest.LogCaptureFixture) -> None:
    """It may be a helper, so it is no error."""
    UserModule(module(awf_create_modle_fn=nothing, awf_rows=nothing, awf_create_model_fn=nothing))
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert caplog.messages[0] == (
        "user defines awf_create_modle_fn (did you mean 'awf_create_model_fn'?), an unknown callback, so the runner does not "
        "call it"
    )
    assert (
        caplog.messages[1]
        == "user defines awf_rows, an unknown callback, so the runner does not call it"
    )
