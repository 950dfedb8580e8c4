"""Java classes that Flink compiles from their text."""

from __future__ import annotations

import pytest

from bridge.workarounds.java_text import new_object
from operators.flink.java import ensure_java

pytestmark = pytest.mark.flink


def test_object_is_made_of_a_java_text_with_a_replaced_word() -> None:
    ensure_java()
    made = new_object(
        "OneRpcSystem", LocalExecutor="org.apache.flink.client.deployment.executors.LocalExecutor"
    )
    assert made.getName() == "local"


def test_class_without_a_java_text_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="NoSuchText"):
        new_object("NoSuchText")
