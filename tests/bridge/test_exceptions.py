"""One base for all errors of the product, and one level below it."""

from __future__ import annotations

import inspect
import re

import pytest

import operators
from bridge import exceptions
from bridge.exceptions import BridgeError

KINDS = [kind for _, kind in inspect.getmembers(exceptions, inspect.isclass) if kind is not BridgeError]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_a_bridge_error_and_keeps_its_message(kind: type[BridgeError]) -> None:
    with pytest.raises(BridgeError, match="^what is wrong$"):
        raise kind("what is wrong")


def test_kinds_can_be_told_apart() -> None:
    assert all(kind.__bases__ == (BridgeError,) for kind in KINDS), "an except for one does not catch another"


def test_the_tree_shows_all_kinds_and_operators_has_them() -> None:
    root, *kinds = re.findall(r"^(?:[├└]── )?(\w+Error)\b", exceptions.__doc__ or "", re.MULTILINE)
    assert root == "BridgeError" and sorted(kinds) == sorted(kind.__name__ for kind in KINDS)
    assert all(getattr(operators, kind.__name__) is kind for kind in [BridgeError, *KINDS])
