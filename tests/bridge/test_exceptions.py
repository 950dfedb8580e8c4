"""One base for all errors of the product, and one level below it."""

from __future__ import annotations

import inspect
import re

import pytest

import operators
from bridge import exceptions
from bridge.exceptions import BridgeError, ConfigurationError, refused_at

KINDS = [
    kind
    for _, kind in inspect.getmembers(exceptions, inspect.isclass)
    if kind.__module__ == exceptions.__name__ and kind is not BridgeError
]


def test_refused_at_prefixes_the_named_errors_with_their_place() -> None:
    with (
        pytest.raises(ConfigurationError, match="^op: filePath: no such file$"),
        refused_at("op: filePath", OSError, ValueError),
    ):
        raise OSError("no such file")
    with pytest.raises(KeyError), refused_at("op: filePath", OSError):
        raise KeyError("other")


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_a_bridge_error_and_keeps_its_message(kind: type[BridgeError]) -> None:
    with pytest.raises(BridgeError, match="^what is wrong$"):
        raise kind("what is wrong")


def test_kinds_of_errors_do_not_inherit_from_each_other() -> None:
    assert all(kind.__bases__ == (BridgeError,) for kind in KINDS), (
        "an except for one does not catch another"
    )


def test_the_tree_shows_all_kinds_and_operators_has_them() -> None:
    root, *kinds = re.findall(r"^(?:[├└]── )?(\w+Error)\b", exceptions.__doc__ or "", re.MULTILINE)
    assert root == "BridgeError" and sorted(kinds) == sorted(kind.__name__ for kind in KINDS)
    assert all(getattr(operators, kind.__name__) is kind for kind in [BridgeError, *KINDS])
