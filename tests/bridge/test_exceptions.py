"""One base for all errors of the product, and one level below it."""

from __future__ import annotations

import inspect

import pytest

from bridge import exceptions
from bridge.exceptions import BridgeError

KINDS = [kind for _, kind in inspect.getmembers(exceptions, inspect.isclass) if kind is not BridgeError]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_a_bridge_error_and_keeps_its_message(kind: type[BridgeError]) -> None:
    with pytest.raises(BridgeError, match="^what is wrong$"):
        raise kind("what is wrong")


def test_kinds_can_be_told_apart() -> None:
    assert {kind.__name__ for kind in KINDS} == {"SchemaError", "RowError", "ConfigurationError", "TaskError"}
    assert all(kind.__bases__ == (BridgeError,) for kind in KINDS), "an except for one does not catch another"
