"""Outputs in columns of each declared type."""

from __future__ import annotations

import numpy as np
import pytest

from akdl.serving.loaded_model import TensorDescription
from akdl.serving.output_cells import OutputConverter
from akdl.wire import TableColumn
from tests.akdl.serving import models

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.mark.parametrize("dtype", models.NUMBERS)
def test_outputs_are_converted_to_declared_types(dtype: str) -> None:
    kind = np.dtype(dtype).kind
    types = [
        "FLOAT",
        "DOUBLE",
        "STRING",
        *([] if kind == "f" else ["TINYINT", "SMALLINT", "INT", "BIGINT", "LONG"]),
    ]
    model = models.served(
        models.identity(dtype, (None,)),
        outputs=[models.OutputColumn(f"as {name}", name, "b") for name in types],
    )
    result = model.predict({"a": [1, 100]})
    for name in types:
        assert (
            list(result[f"as {name}"]) == (["1.0", "100.0"] if kind == "f" else ["1", "100"])
            if name == "STRING"
            else [1, 100]
        )


def test_booleans_become_lists_or_texts() -> None:
    model = models.served(
        models.identity("bool", (None, 2)),
        outputs=[
            models.OutputColumn("b", "ARRAY<BOOLEAN>"),
            models.OutputColumn("t", "STRING", "b"),
        ],
    )
    for cells in (
        [[True, False]],
        [[1, 0]],
        ["true FALSE"],
        ["1,0"],
        [b"\x01\x00"],
        np.array([[True, False]]),
    ):
        result = model.predict({"a": cells})
        assert result["b"].tolist() == [[True, False]]
        assert result["t"] == ["true false"]


def test_lists_of_strings_become_lists_or_texts() -> None:
    model = models.served(
        models.identity("string", (None, 2)),
        outputs=[
            models.OutputColumn("b", "ARRAY<STRING>"),
            models.OutputColumn("c", "STRING", "b"),
        ],
    )
    assert model.predict({"a": [["a", "b"], ["c", "d"]]}) == {
        "b": [["a", "b"], ["c", "d"]],
        "c": ["a b", "c d"],
    }


def test_texts_become_numbers_or_bad_rows() -> None:
    model = models.served(
        models.identity("string", (None,)),
        outputs=[models.OutputColumn("b", "INT"), models.OutputColumn("c", "DOUBLE", "b")],
    )
    result, bad = model.predict_collecting({"a": ["7", "x"]})
    assert result == {"b": [7, None], "c": [7.0, None]}
    assert bad == [
        (1, "output 'b' to column 'b' (INT): expected a number of type int32, got the string b'x'")
    ]


@pytest.mark.fault("data", "A text with a number beyond the column's type is an error of its row")
@pytest.mark.parametrize(("kind", "text"), [("TINYINT", b"300"), ("FLOAT", b"1e39")])
def test_numbers_of_texts_out_of_range_are_bad_rows(kind: str, text: bytes) -> None:
    tensor = TensorDescription("y", "string", (-1,), "y")
    cells, bad = OutputConverter(TableColumn(name="y", type=kind), tensor).convert(
        np.array([text, b"7"], object)
    )
    assert list(cells) == [None, 7] and f"does not fit into {kind}" in bad[0]


@pytest.mark.parametrize(
    ("kind", "text"), [("BIGINT", b"1_0"), ("DOUBLE", b"1_0.5"), ("DOUBLE", b"1e400")]
)
def test_texts_that_python_alone_reads_as_numbers_are_bad_rows(kind: str, text: bytes) -> None:
    tensor = TensorDescription("y", "string", (-1,), "y")
    cells, bad = OutputConverter(TableColumn(name="y", type=kind), tensor).convert(
        np.array([text, b"7"], object)
    )
    assert list(cells) == [None, 7] and f"got the string {text!r}" in bad[0]


def test_bytes_that_are_not_utf8_are_bad_rows_of_a_text_column() -> None:
    model = models.served(
        models.identity("string", (None,)), outputs=[models.OutputColumn("b", "STRING")]
    )
    result, bad = model.predict_collecting({"a": [b"\xff", b"x"]})
    assert (result["b"], bad[0][0]) == ([None, "x"], 0)
    assert "declare BYTES" in bad[0][1]


def test_floats_become_their_shortest_text() -> None:
    model = models.served(
        models.identity("float32", (None, 2)), outputs=[models.OutputColumn("b", "STRING")]
    )
    assert model.predict({"a": [[0.1, 1e20]]})["b"] == ["0.1 1e+20"]


def test_numbers_out_of_range_of_the_column_are_bad_rows() -> None:
    model = models.served(
        models.identity("int64", (None,)), outputs=[models.OutputColumn("b", "TINYINT")]
    )
    result, bad = model.predict_collecting({"a": [1, 200, -128]})
    assert (result["b"], [row for row, _ in bad]) == ([1, None, -128], [1])
