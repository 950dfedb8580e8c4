"""Task configs: placeholders, the schema, and all mistakes at once."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import jsonschema
import pytest

from akdl.keras import task_configs as config_module
from akdl.keras.task_configs import check, placeholders_in, prepare
from akdl.training.user_functions import UserModule
from akdl.user_code.config_file import ConfigError, read_config, set_value

TRAIN = {"batch_size": 4, "optimizer": "sgd", "loss": "mse"}
EVALUATE = {"models": [{"name": "m", "path": "p"}], "batch_size": 4, "metrics": ["AUC"]}
PREDICT = {"model": {"name": "m", "path": "p"}, "batch_size": 4}

GOOD: list[tuple[str, dict[str, Any]]] = [
    ("train", TRAIN),
    (
        "train",
        {
            **TRAIN,
            "optimizer": ["Ftrl", {"name": "Adam", "args": {"learning_rate": 0.1}}],
            "seed": 0,
        },
    ),
    (
        "train",
        {
            **TRAIN,
            "loss": {"a": "mse", "b": {"name": "mae"}},
            "loss_weights": {"a": 0.5},
            "metrics": {"a": ["AUC"]},
        },
    ),
    (
        "train",
        {
            **TRAIN,
            "callbacks": [{"name": "checkpoint", "args": {"path": "p"}}],
            "epochs": 2,
            "steps_per_epoch": 3,
        },
    ),
    ("evaluate", EVALUATE),
    ("evaluate", {**EVALUATE, "output": {"csv": "x"}, "test_data_args": {"file": "f"}}),
    ("predict", PREDICT),
    ("predict", {**PREDICT, "output": {"path": "x", "format": "npz"}, "keep": ["id"]}),
]
BAD: list[tuple[str, dict[str, Any], list[str]]] = [
    ("train", {}, ["batch_size: missing", "optimizer: missing", "loss: missing"]),
    ("train", {**TRAIN, "batch_size": 0}, ["batch_size: expected 1 or more, got 0"]),
    ("train", {**TRAIN, "batch_size": True, "epochs": "3"}, ["batch_size: expected an integer, got true", 'epochs: expected an integer, got "3"']),
    ("train", {**TRAIN, "optimizer": ["sgd", {"name": 3}]}, ["optimizer[1].name: expected a string, got 3"]),
    ("train", {**TRAIN, "optimizer": {"nam": "sgd"}}, ["optimizer.name: missing", "optimizer.nam: unknown key; known are name, args"]),
    ("train", {**TRAIN, "loss": 3}, ["loss: expected a string or an object or an array, got 3"]),
    ("train", {**TRAIN, "metrics": {"a": "AUC"}}, ['metrics.a: expected an array, got "AUC"']),
    ("evaluate", {**EVALUATE, "models": []}, ["models: expected 1 or more entries, got 0"]),
    ("evaluate", {**EVALUATE, "models": [{"name": "m"}]}, ["models[0].path: missing"]),
    ("predict", {**PREDICT, "output": {"path": "x", "format": "xls"}}, ["output.format: expected one of npz, csv, tfrecord, got 'xls'"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    with open(config_module.SCHEMA_FILE, encoding="utf-8") as file:
        return json.load(file)


@pytest.mark.parametrize(("task", "config"), GOOD)
def test_correct_configs_pass_the_check_and_the_schema(
    schema: dict[str, Any], task: str, config: dict[str, Any]
) -> None:
    assert check(task, config) == []
    jsonschema.validate(config, {**schema, "anyOf": [{"$ref": f"#/definitions/{task}"}]})


@pytest.mark.parametrize(("task", "config", "mistakes"), BAD)
def test_wrong_configs_fail_the_check_and_the_schema(
    schema: dict[str, Any], task: str, config: dict[str, Any], mistakes: list[str]
) -> None:
    assert [one.partition("; known are model_args")[0] for one in check(task, config)] == mistakes
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(config, {**schema, "anyOf": [{"$ref": f"#/definitions/{task}"}]})


def test_check_finds_mistakes_that_the_schema_cannot_express() -> None:
    assert check("train", {**TRAIN, "callbacks": ["checkpoint", "checkpoint"]}) == [
        "callbacks[1]: expected one checkpoint callback, got another: remove it"
    ]
    assert check("predict", {"batch_size": 1}) == ["model: expected either model or models"]
    double = {**EVALUATE, "models": EVALUATE["models"] * 2}
    assert check("evaluate", double) == ["models: expected different names, got m more than once"]


def test_schema_of_task_configs_is_a_valid_json_schema(schema: dict[str, Any]) -> None:
    jsonschema.Draft7Validator.check_schema(schema)


CONFIG = {**TRAIN, "train_data_args": {"files": ["${DATA_PATH}$/a", "${DATA_PATH}$/${PART}$"]}}


def test_placeholders_are_filled_from_arguments_before_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PART", "b")
    monkeypatch.setenv("DATA_PATH", "not this")
    filled = prepare("train", CONFIG, {"DATA_PATH": "/d"})
    assert filled["train_data_args"] == {"files": ["/d/a", "/d/b"]}
    assert set(placeholders_in(CONFIG)) == {"DATA_PATH", "PART"}


def test_placeholders_without_a_value_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PART", raising=False)
    with pytest.raises(ConfigError) as raised:
        prepare("train", {**CONFIG, "batch_size": "x"}, {"DATA_PATH": "/d"})
    assert raised.value.mistakes == [
        "train_data_args.files[1]: the placeholder ${PART}$ has no value: set it with --set PART=..., a user parameter of the "
        "operator, or the environment",
        'batch_size: expected an integer, got "x"',
    ]


def test_user_module_lists_all_mistakes_in_one_error() -> None:
    user = ModuleType("user")
    vars(user).update(awf_create_model_fn=lambda name: None)
    config = {"loss": "mse", "optimizer": ["sgd", "adam"], "val_data_args": {}}
    with pytest.raises(
        ConfigError, match="the train config has 4 mistakes:\n- batch_size: missing\n"
    ) as raised:
        prepare("train", config, {}, UserModule(user))
    assert raised.value.mistakes[1:] == [
        "model_args: missing name of awf_create_model_fn(name) in user",
        "user has to define awf_create_train_dataset_fn",
        "optimizer: several optimizers need awf_group_trainable_vars_fn, which user does not define",
    ]


def test_user_module_groups_of_variables_need_several_optimizers() -> None:
    user = ModuleType("user")
    vars(user).update(
        awf_create_model_fn=lambda: None,
        awf_create_train_dataset_fn=lambda: None,
        awf_group_trainable_vars_fn=lambda model: ((), ()),
    )
    for optimizer in ("sgd", ["sgd"]):
        config = {"loss": "mse", "optimizer": optimizer, "batch_size": 1}
        with pytest.raises(
            ConfigError,
            match="optimizer: user defines awf_group_trainable_vars_fn: expected a list",
        ):
            prepare("train", config, {}, UserModule(user))


def test_set_value_sets_and_adds_values_at_paths() -> None:
    config: dict[str, Any] = {"models": [{"path": "a"}]}
    set_value(config, "optimizer.args.learning_rate", "0.1")
    set_value(config, "models.0.path", "b")
    set_value(config, "epochs", "3")
    assert config == {
        "models": [{"path": "b"}],
        "optimizer": {"args": {"learning_rate": 0.1}},
        "epochs": 3,
    }


@pytest.mark.parametrize("path", ["epochs.a", "models.1.path", "models.x"])
def test_set_value_refuses_a_path_that_does_not_exist(path: str) -> None:
    with pytest.raises(ConfigError, match="cannot be set"):
        set_value({"epochs": 1, "models": []}, path, "1")


def test_a_file_that_is_no_json(tmp_path: Any) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"a": 1,\n "b" 2}')
    with pytest.raises(ConfigError, match="line 2, column 6"):
        read_config(str(path))
    for content in (b"[" * 100_000, b'{"a": "\xff"}'):
        path.write_bytes(content)
        with pytest.raises(
            ConfigError, match="c.json config has a mistake:\n- expected JSON as UTF-8"
        ):
            read_config(str(path))
    path.write_text("[1]")
    with pytest.raises(ConfigError, match="expected an object, got a list"):
        read_config(str(path))
