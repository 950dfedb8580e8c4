"""Batches as numpy arrays, for scripts without TensorFlow; `test_batches.py` compares their values
with tensors.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from akdl.rows.cell_rows import Ragged
from akdl.rows.file_rows import FileRows
from akdl.rows.stream_rows import StreamRows
from akdl.runner.context import TFContext
from akdl.testing import table_columns
from tests.akdl.rows.test_file_rows import COLUMNS, Feed
from tests.support.random_rows import chunk_of, ended

TYPES = {"id": "BIGINT", "x": "FLOAT", "word": "STRING", "raw": "BYTES", "many": "ARRAY<FLOAT>"}
CELLS: dict[str, list[Any]] = {
    "id": [1, 2, None], "x": [0.5, None, 1.5], "word": ["ä".encode(), None, b""], "raw": [b"\xff", b"", None],
    "many": [[1.0, 2.0], None, [3.0]],
}  # fmt: skip


def context_of(folder: pathlib.Path, *chunks: dict[str, list[Any]]) -> TFContext:
    rows = FileRows(
        str(folder), ended([chunk_of(cells, TYPES) for cells in chunks]), table_columns(TYPES)
    )
    return TFContext(rows, table_columns(TYPES))


def test_arrays_mask_nulls_of_columns_without_a_default(tmp_path: pathlib.Path) -> None:
    (batch,) = context_of(tmp_path, CELLS).arrays(10, {"x": -1}, masked=True)
    assert isinstance(batch["id"], np.ma.MaskedArray) and batch["id"].tolist() == [1, 2, None]
    assert type(batch["x"]) is np.ndarray and batch["x"].tolist() == [0.5, -1, 1.5]
    assert batch["word"].tolist() == ["ä", None, ""] and batch["raw"].tolist() == [
        b"\xff",
        b"",
        None,
    ]
    assert isinstance(batch["many"], Ragged)
    assert (batch["many"].values.tolist(), batch["many"].offsets.tolist()) == (
        [1, 2, 3],
        [0, 2, 2, 3],
    )


def test_columns_of_numbers_are_always_masked_or_never(tmp_path: pathlib.Path) -> None:
    """Batches of a chunk without nulls look like the others, so a script need not look at each."""
    whole = {**CELLS, "id": [4, 5, 6]}
    batches = list(context_of(tmp_path, whole, CELLS).arrays(2, columns=["id"], masked=True))
    assert [batch["id"].tolist() for batch in batches] == [[4, 5], [6, 1], [2, None]]
    assert all(isinstance(batch["id"], np.ma.MaskedArray) for batch in batches)


def test_a_null_without_a_default_is_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        ValueError,
        match=r"row 4 of this process: column 'x': expected a value, got null. .*masked=True",
    ):
        list(context_of(tmp_path, {**CELLS, "x": [0, 0, 0]}, CELLS).arrays(10, columns=["x"]))


def test_wrong_arguments_are_refused_before_rows_arrive(tmp_path: pathlib.Path) -> None:
    context = context_of(tmp_path, CELLS)
    with pytest.raises(ValueError, match="unknown column 'y'"):
        context.arrays(10, columns=["y"])
    with pytest.raises(ValueError, match="names the ARRAY column 'many'"):
        context.arrays(10, {"many": 0})


def test_numbers_are_not_copied(tmp_path: pathlib.Path) -> None:
    first, second = context_of(tmp_path, {**CELLS, "x": [0, 1, 2]}).arrays(2, columns=["x"])
    assert first["x"].base is second["x"].base is not None and not first["x"].flags.writeable


def test_without_a_seed_numpy_decides(tmp_path: pathlib.Path) -> None:
    context, orders = context_of(tmp_path, {**CELLS, "x": [0, 1, 2]}), []
    for seed in (1, 1, 2, 3, 4):
        np.random.seed(seed)
        orders.append(
            [
                batch["x"].tolist()
                for batch in context.arrays(2, columns=["x"], shuffle_rows=9, num_epochs=9)
            ]
        )
    assert orders[0] == orders[1] and len(set(map(str, orders))) > 1 and len(orders[0]) == 14


@pytest.mark.parametrize("leaves", [False, True])
def test_request_for_a_batch_finishes_the_one_before(tmp_path: pathlib.Path, leaves: bool) -> None:
    feed, told = Feed(), []
    rows = StreamRows(str(tmp_path), feed, COLUMNS)
    rows.on_reached = told.append
    feed.chunk(*range(15))
    feed.chunk(*range(15, 25))
    feed.end()
    seen = []
    for batch in TFContext(rows, COLUMNS).arrays(10):
        seen.append((len(batch["id"]), list(told)))
        if leaves:
            break
    assert seen == ([(10, [])] if leaves else [(10, []), (10, [10]), (5, [10, 20])])
    assert rows.received == (10 if leaves else 25)


@pytest.mark.process
def test_arrays_need_no_tensorflow() -> None:
    program = (
        "import sys, tempfile; sys.modules['tensorflow'] = None\n"
        "from akdl import testing\n"
        "config = testing.batch_task_config({'x': [1.0, 2.0]}, {'x': 'FLOAT'}, tempfile.mkdtemp())\n"
        "print([batch['x'].tolist() for batch in config.context.arrays(1, shuffle_rows=5, seed=1)])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout in ("[[1.0], [2.0]]\n", "[[2.0], [1.0]]\n"), done.stderr
