"""Editors and mypy see what the classes have."""

from __future__ import annotations

import ast
import pathlib

from operators.params import accessors
from scripts import build_stubs

STUB = build_stubs.STUB


def test_the_stub_is_in_step_with_the_catalog(tmp_path: pathlib.Path) -> None:
    fresh = tmp_path / "accessors.pyi"
    build_stubs.build(fresh)
    assert STUB.read_text(encoding="utf-8") == fresh.read_text(encoding="utf-8"), (
        "stale: run `make setup`"
    )


def test_the_stub_names_every_accessor() -> None:
    stubs = {
        node.name: node
        for node in ast.parse(STUB.read_text()).body
        if isinstance(node, ast.ClassDef)
    }
    for kind in accessors.ALL:
        declared = {
            node.name for node in stubs[kind.__name__].body if isinstance(node, ast.FunctionDef)
        } - {"__init__"}
        assert declared == {name for name in vars(kind) if name.startswith(("get", "set"))}
