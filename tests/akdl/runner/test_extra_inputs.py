"""Extra inputs as text."""

from __future__ import annotations

import pathlib

from akdl.runner.extra_inputs import write_text
from akdl.testing import table_columns
from akdl.wire import Rows
from tests.support.random_rows import chunk_of

TYPES = {"d": "DOUBLE", "f": "FLOAT", "many": "ARRAY<DOUBLE>", "s": "STRING"}


def test_doubles_are_exact(tmp_path: pathlib.Path) -> None:
    cells = {
        "d": [0.1, 1 / 3, None],
        "f": [0.1, 2.5, -1.0],
        "many": [[0.1, 0.2], [], None],
        "s": ["a b", "c", "d"],
    }
    chunk = chunk_of(
        {
            name: [c.encode() if isinstance(c, str) else c for c in each]
            for name, each in cells.items()
        },
        TYPES,
    )
    write_text(str(tmp_path / "text"), [Rows.FromString(chunk.columns)], table_columns(TYPES))
    lines = (tmp_path / "text").read_text().splitlines()
    assert lines == ["0.1 0.1 0.1,0.2 a b", "0.3333333333333333 2.5  c", "null -1.0 null d"]
