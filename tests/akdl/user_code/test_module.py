"""Loading the user's module and telling what it is written for."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from akdl.user_code.module import UserModuleError, kind_of, load_module


def module(**functions: Any) -> ModuleType:
    made = ModuleType("user")
    vars(made).update(functions)
    return made


def nothing(*args: Any, **kwargs: Any) -> None: ...


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("main", ["main"]),
        ("keras", ["awf_create_model_fn"]),
        ("estimator", ["model_fn", "train_input_fn", "eval_input_fn", "serving_input_receiver_fn"]),
    ],
)
def test_kind_of_a_module_follows_from_its_functions(kind: str, names: list[str]) -> None:
    assert kind_of(module(**dict.fromkeys(names, nothing))) == kind


def test_kind_of_several_kinds_has_to_be_chosen() -> None:
    both = module(model_fn=nothing, train_input_fn=nothing, awf_create_model_fn=nothing)
    listed = r"keras: awf_create_model_fn; estimator: model_fn, train_input_fn"
    with pytest.raises(
        UserModuleError,
        match=rf"user parameter 'runner': .* several kinds \({listed}\): choose one of them",
    ):
        kind_of(both)
    assert kind_of(both, "keras") == "keras"
    with pytest.raises(
        UserModuleError,
        match=r"^user parameter 'runner': \S+ holds no functions of the kind main; it has keras: awf",
    ):
        kind_of(both, "main")
    with pytest.raises(UserModuleError, match="expected main, keras or estimator"):
        kind_of(both, "torch")


def test_main_comes_before_the_other_kinds() -> None:
    both = module(main=nothing, awf_create_model_fn=nothing)
    assert (kind_of(both), kind_of(both, "keras")) == ("main", "keras")


def test_kind_of_a_module_without_known_functions_is_an_error() -> None:
    with pytest.raises(
        UserModuleError, match="^user defines no function `main`: the main script needs `def main"
    ):
        kind_of(module(model_fn=nothing))


def test_load_module_imports_it_under_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", ["/somewhere"])
    (tmp_path / "beside_it.py").write_text("VALUE = 3\n")
    (tmp_path / "my_callbacks.py").write_text("from beside_it import VALUE\n")
    loaded = load_module(str(tmp_path / "my_callbacks.py"))
    assert (loaded.__name__, loaded.VALUE) == ("my_callbacks", 3)


@pytest.mark.parametrize("name", ["missing.py", "text.txt"])
def test_load_module_refuses_what_is_no_python_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "text.txt").write_text("")
    with pytest.raises(UserModuleError, match=f"to be a Python file, got .*{name}"):
        load_module(str(tmp_path / name))
