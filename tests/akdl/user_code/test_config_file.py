"""JSON config files, and values set from the command line."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from akdl.user_code.config_file import ConfigError, named, read_config, set_value


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1,\n "b" 2}', "line 2, column 6: Expecting ':' delimiter"),
        (b"", "line 1, column 1: Expecting value"),
        (b"[1]", "expected an object, got a list"),
        (b"3", "expected an object, got 3"),
        (b'{"a": "\xff"}', "expected JSON as UTF-8: 'utf-8' codec can't decode"),
        (b"[" * 100_000, "expected JSON as UTF-8: maximum recursion depth"),
    ],
)
def test_file_without_a_json_object_is_refused(
    tmp_path: pathlib.Path, content: bytes, message: str
) -> None:
    (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_config(str(tmp_path / "c.json"))
    assert str(caught.value).startswith(f"the c.json config has a mistake:\n- {message}")


def test_folder_in_place_of_a_config_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path} cannot be read: Is a directory"):
        read_config(str(tmp_path))


def test_read_config_returns_the_values_of_a_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "c.json").write_text('{"größe": [1, null]}', encoding="utf-8")
    assert read_config(str(tmp_path / "c.json")) == {"größe": [1, None]}


def test_all_mistakes_are_listed() -> None:
    error = ConfigError("train", ["one", "two"])
    assert str(error) == "the train config has 2 mistakes:\n- one\n- two" and error.mistakes == [
        "one",
        "two",
    ]


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a", "5", {"a": 5}),
        ("b.c", "true", {"b": {"c": True}}),
        ("b.new.d", "[1]", {"b": {"c": 0, "new": {"d": [1]}}}),
        ("list.1", "plain text", {"list": [0, "plain text"]}),
        ("list.0", '"5"', {"list": ["5", {}]}),
        ("list.1.x", "null", {"list": [0, {"x": None}]}),
    ],
)
def test_set_value_changes_and_adds_values_at_paths(
    path: str, text: str, expected: dict[str, Any]
) -> None:
    config: dict[str, Any] = {"a": 1, "b": {"c": 0}, "list": [0, {}]}
    changed = {**config, **expected}
    set_value(config, path, text)
    assert config == changed


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a.b", "a.b cannot be set: 1 has no 'b'"),
        ("list.2", "list.2 cannot be set: a list has no '2'"),
        ("list.x", "list.x cannot be set: a list has no 'x'"),
        ("list.7.y", "list.7.y cannot be set: a list has no '7'"),
        ("list.7.0", "list.7.0 cannot be set: a list has no '7'"),
    ],
)
def test_set_value_refuses_paths_without_a_place(path: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        set_value({"a": 1, "list": [0]}, path, "3")


def test_named_describes_values_in_messages() -> None:
    assert [named(value) for value in ({}, [], "x", None, 1.5)] == [
        "an object",
        "a list",
        '"x"',
        "null",
        "1.5",
    ]
