"""Predictions are those of TensorFlow itself, whatever the model was made with; what cannot be predicted is named."""

from __future__ import annotations

import decimal
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl.serving.model import ServedModel
from akdl.serving.output_cells import OutputColumn
from akdl.serving.prediction_errors import RowsError, ServingError, SignatureError
from akdl.storage.model_archive import ModelError
from tests.akdl.serving import models
from tests.akdl.test_imports import in_fresh_interpreter

pytestmark = [pytest.mark.tf, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")]


def expected(folder: str, columns: dict[str, Any], signature: str = "serving_default") -> dict[str, Any]:
    import tensorflow as tf

    loaded = tf.saved_model.load(folder)
    function = loaded.signatures[signature]
    return {name: tensor.numpy() for name, tensor in function(**{k: tf.constant(v) for k, v in columns.items()}).items()}


def key_of(make: Any) -> str:
    return "predict" if make is models.estimator else "serving_default"


@pytest.mark.parametrize("make", models.ALL)
def test_every_kind_of_model_same_numbers(make: Any) -> None:
    columns, folder = models.rows(50), make()
    theirs = expected(folder, columns, key_of(make))
    with ServedModel(folder, signature=key_of(make)) as model:
        ours = model.predict(columns)
    assert set(ours) == set(theirs) >= {"logits"}
    for name, values in theirs.items():
        np.testing.assert_array_equal(ours[name], values)


@pytest.mark.parametrize("make", models.ALL)
def test_every_kind_of_model_same_numbers_in_a_session(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("akdl.serving.runners.runs_eagerly", lambda: False)
    columns, folder = models.rows(50), make()
    with ServedModel(folder, signature=key_of(make), outputs=["logits"]) as model:
        assert type(model._runner.model).__name__ == "Session"
        ours = model.predict(columns)["logits"]
    np.testing.assert_allclose(ours, expected(folder, columns, key_of(make))["logits"], rtol=1e-6)


@pytest.mark.parametrize("name", ["run[1]", "run*?", "run\\1"])
@pytest.mark.parametrize("eagerly", [True, False])
def test_folders_that_tensorflow_takes_for_a_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, eagerly: bool
) -> None:
    monkeypatch.setattr("akdl.serving.runners.runs_eagerly", lambda: eagerly)
    columns, folder = models.rows(5), models.keras_functional()
    shutil.copytree(folder, tmp_path / name)
    with ServedModel(str(tmp_path / name)) as model, ServedModel(folder) as same:
        ours, theirs = model.predict(columns), same.predict(columns)
        for key, values in theirs.items():
            np.testing.assert_array_equal(ours[key], values)


def test_every_kind_of_model_small_batches_are_put_together_in_order() -> None:
    columns = models.rows(50)
    whole = ServedModel(models.module()).predict(columns)
    parts = ServedModel(models.module(), batch_size=7).predict(columns)
    np.testing.assert_array_equal(parts["p"], whole["p"])
    np.testing.assert_allclose(parts["logits"], whole["logits"], rtol=1e-6)


def test_every_kind_of_model_other_columns_feed_the_inputs() -> None:
    model = ServedModel(
        models.module(), inputs={"features": "x", "K": "k"}, outputs=[OutputColumn("y", "ARRAY<DOUBLE>", "logits")]
    )
    columns = models.rows(4)
    ours = model.predict({"K": columns["k"].tolist(), "features": columns["x"].tolist(), "more": [None] * 4})
    np.testing.assert_array_equal(ours["y"], expected(models.module(), columns)["logits"].astype("f8"))
    assert {name: tensor.key for name, tensor in model.inputs.items()} == {"features": "x", "K": "k"}
    assert {name: tensor.key for name, tensor in model.outputs.items()} == {"y": "logits"}


def test_every_kind_of_model_no_rows() -> None:
    model = ServedModel(models.module(), outputs=["p", OutputColumn("l", "STRING", "logits")])
    assert [len(cells) for cells in model.predict({"x": [], "k": []}).values()] == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tag": "gpu"}, r"no graph with the tag 'gpu' .* it has: 'serve'"),
        ({"signature": "predict"}, r"it has: 'look_up' \(inputs: 'k' int64 \[-1\]; .*'serving_default'"),
        ({"inputs": ["x"]}, r"one column for each input .* columns for 'x'; .* 'x' float32 \[-1, 3\]"),
        ({"inputs": ["x", "k", "z"]}, r"no input 'z'"),
        ({"outputs": ["y"]}, r"no output 'y'; .*outputs: 'logits' float32 \[-1, 2\], 'p' float32 \[-1\]"),
        ({"outputs": []}, "expected output columns"),
        ({"outputs": [OutputColumn("logits", "DOUBLE")]}, "holds one value, but .* has 2 in each row"),
        ({"outputs": [OutputColumn("p", "BIGINT")]}, "cannot hold the output 'p' float32"),
        ({"outputs": [OutputColumn("p", "TIMESTAMP(3)")]}, "supported types are BIGINT, BOOLEAN"),
    ],
)
def test_what_the_model_has_not_is_named_beside_what_it_has(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SignatureError, match=message):
        ServedModel(models.module(), **arguments)


def test_no_model(tmp_path: Any) -> None:
    with pytest.raises(ModelError, match="found nothing"):
        ServedModel(str(tmp_path))
    (tmp_path / "saved_model.pb").write_bytes(b"no proto")
    with pytest.raises(ModelError, match="is damaged"):
        ServedModel(str(tmp_path))


def test_what_the_model_has_not_variables_are_missing(tmp_path: Any) -> None:
    import shutil

    shutil.copy(models.module() + "/saved_model.pb", tmp_path)
    with pytest.raises(ModelError, match="cannot be loaded"):
        ServedModel(str(tmp_path))


def test_columns_that_do_not_fit() -> None:
    model = ServedModel(models.module())
    with pytest.raises(ServingError, match="missing the column 'k' for the input 'k'; the columns are 'x'"):
        model.predict({"x": [[1, 2, 3]]})
    with pytest.raises(ServingError, match="different numbers of rows"):
        model.predict({"x": [[1, 2, 3]], "k": [1, 2]})


NUMBERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", [*NUMBERS, "bfloat16"])
def test_types_numbers_there_and_back(dtype: str) -> None:
    values = [[0, 1], [2, 100]]
    model = ServedModel(models.identity(dtype, (None, 2)))
    for cells in (values, np.array(values), np.array(values, "f4"), ["0 1", "2.0,100"], ["$2$0,1", " 2 , 100 "]):
        result = model.predict({"a": cells})["b"]
        assert result.tolist() == values
        assert str(result.dtype) == (dtype if dtype != "bfloat16" else "float32")
    if dtype != "bfloat16":
        raw = [np.array(row, np.dtype(dtype).newbyteorder("<")).tobytes() for row in values]
        served = ServedModel(models.identity(dtype, (None, 2)), outputs=[OutputColumn("b", "BYTES")])
        assert served.predict({"a": raw})["b"] == raw


@pytest.mark.parametrize("dtype", NUMBERS)
def test_declared_types(dtype: str) -> None:
    kind = np.dtype(dtype).kind
    types = ["FLOAT", "DOUBLE", "STRING", *([] if kind == "f" else ["TINYINT", "SMALLINT", "INT", "BIGINT", "LONG"])]
    model = ServedModel(models.identity(dtype, (None,)), outputs=[OutputColumn(f"as {name}", name, "b") for name in types])
    result = model.predict({"a": [1, 100]})
    for name in types:
        assert (
            list(result[f"as {name}"]) == (["1.0", "100.0"] if kind == "f" else ["1", "100"]) if name == "STRING" else [1, 100]
        )


def test_types_booleans() -> None:
    model = ServedModel(
        models.identity("bool", (None, 2)), outputs=[OutputColumn("b", "ARRAY<BOOLEAN>"), OutputColumn("t", "STRING", "b")]
    )
    for cells in ([[True, False]], [[1, 0]], ["true FALSE"], ["1,0"], [b"\x01\x00"], np.array([[True, False]])):
        result = model.predict({"a": cells})
        assert result["b"].tolist() == [[True, False]]
        assert result["t"] == ["true false"]


def test_types_strings() -> None:
    model = ServedModel(
        models.identity("string", (None,)), outputs=[OutputColumn("b", "STRING"), OutputColumn("c", "BYTES", "b")]
    )
    result = model.predict({"a": ["é, x", b"\xc3\xa9\x00", ""]})
    assert result == {"b": ["é, x", "é\x00", ""], "c": ["é, x".encode(), b"\xc3\xa9\x00", b""]}
    assert model.predict({"a": np.array(["a", "bc"])})["b"] == ["a", "bc"]


def test_types_numbers_are_no_strings() -> None:
    _, bad = ServedModel(models.identity("string", (None,))).predict_collecting({"a": np.array([1, 2])})
    assert [row for row, _ in bad] == [0, 1]
    assert "expected a string or bytes, got int" in bad[0][1]


def test_types_lists_of_strings() -> None:
    model = ServedModel(
        models.identity("string", (None, 2)), outputs=[OutputColumn("b", "ARRAY<STRING>"), OutputColumn("c", "STRING", "b")]
    )
    assert model.predict({"a": [["a", "b"], ["c", "d"]]}) == {"b": [["a", "b"], ["c", "d"]], "c": ["a b", "c d"]}


def test_types_arrays_of_strings() -> None:
    model = ServedModel(models.identity("string", (None, 2)))
    cells = np.array([[b"a", "é".encode()], [b"c", b""]], object)
    assert model.predict({"a": cells})["b"].tolist() == cells.tolist()
    _, bad = model.predict_collecting({"a": np.array([[b"a", None], [b"c", b""]], object)})
    assert bad == [(0, "input 'a' (string [2]) from column 'a': expected a string or bytes, got null")]


def test_types_strings_in_utf8() -> None:
    model = ServedModel(models.texts_and_numbers(), utf8_columns=["t", "x"])
    result, bad = model.predict_collecting({"t": ["é".encode(), b"bb", b""], "x": [b"1,2", None, b"\xff"]})
    assert (result["length"], result["sum"]) == ([2, None, None], [3, None, None])
    assert [message.split(": ", 1)[1] for _, message in bad] == [
        "expected a value, got null",
        "expected float32 numbers, got the string '\ufffd'",
    ]
    raw = np.array([1, 2], "<f4").tobytes()
    assert ServedModel(models.texts_and_numbers()).predict({"t": [b"a"], "x": [raw]})["sum"].tolist() == [3]


def test_types_text_elements_as_numbers() -> None:
    model = ServedModel(
        models.identity("string", (None,)), outputs=[OutputColumn("b", "INT"), OutputColumn("c", "DOUBLE", "b")]
    )
    result, bad = model.predict_collecting({"a": ["7", "x"]})
    assert result == {"b": [7, None], "c": [7.0, None]}
    assert bad == [(1, "output 'b' to column 'b' (INT): expected a number of type int32, got the string b'x'")]


def test_types_bytes_that_are_no_text() -> None:
    model = ServedModel(models.identity("string", (None,)), outputs=[OutputColumn("b", "STRING")])
    result, bad = model.predict_collecting({"a": [b"\xff", b"x"]})
    assert (result["b"], bad[0][0]) == ([None, "x"], 0)
    assert "declare BYTES" in bad[0][1]


def test_types_shortest_text_of_floats() -> None:
    model = ServedModel(models.identity("float32", (None, 2)), outputs=[OutputColumn("b", "STRING")])
    assert model.predict({"a": [[0.1, 1e20]]})["b"] == ["0.1 1e+20"]


def test_types_out_of_the_columns_range() -> None:
    model = ServedModel(models.identity("int64", (None,)), outputs=[OutputColumn("b", "TINYINT")])
    result, bad = model.predict_collecting({"a": [1, 200, -128]})
    assert (result["b"], [row for row, _ in bad]) == ([1, None, -128], [1])


@pytest.mark.parametrize("text", ["1.5", "x", "", "1 2", "1e30", str(2**63)])
def test_types_text_that_is_no_integer(text: str) -> None:
    _, bad = ServedModel(models.identity("int64", (None,))).predict_collecting({"a": ["1", text]})
    assert [row for row, _ in bad] == [1]


def test_types_decimals() -> None:
    cells = [decimal.Decimal("1.5"), decimal.Decimal(2)]
    assert ServedModel(models.identity("float32", (None,))).predict({"a": cells})["b"].tolist() == [1.5, 2]
    result, bad = ServedModel(models.identity("int32", (None,))).predict_collecting({"a": cells})
    assert (result["b"], bad[0][0]) == ([None, 2], 0)


@pytest.mark.parametrize("text", ["NaN", "Infinity"])
def test_types_decimals_that_are_no_integers_leave_other_rows_alone(text: str) -> None:
    cells = [[decimal.Decimal(text)], [decimal.Decimal(2)]]
    result, bad = ServedModel(models.identity("int32", (None, 1))).predict_collecting({"a": cells})
    assert result["b"][0] is None and result["b"][1].tolist() == [2]
    (row, message) = bad[0]
    assert row == 0 and message.endswith(f"expected int32, got [Decimal('{text}')]")


def test_types_large_integers_stay_exact() -> None:
    model = ServedModel(models.identity("int64", (None,)), outputs=[OutputColumn("b", "BIGINT")])
    assert model.predict({"a": [2**53 + 1, -(2**63), 2**63 - 1]})["b"].tolist() == [2**53 + 1, -(2**63), 2**63 - 1]
    assert model.predict({"a": [str(2**53 + 1)]})["b"].tolist() == [2**53 + 1]


@pytest.mark.parametrize(
    ("shape", "cell", "wanted"),
    [
        ((None,), 5, 5),
        ((None,), [5], 5),
        ((None, 1), 5, [5]),
        ((None, None), 5, [5]),
        ((None, 2, 2), [1, 2, 3, 4], [[1, 2], [3, 4]]),
        ((None, 2, 2), [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        ((None, 2, None), [1, 2, 3, 4, 5, 6], [[1, 2, 3], [4, 5, 6]]),
        ((None, 2, None), "1 2 3 4", [[1, 2], [3, 4]]),
        ((None, None, None), "$1 2$ 3 4", [[3, 4]]),
        ((None, None), "3 4", [3, 4]),
    ],
)
def test_shapes_one_row(shape: tuple[int | None, ...], cell: Any, wanted: Any) -> None:
    for cells in ([cell], np.array([cell])):
        assert ServedModel(models.identity("int32", shape)).predict({"a": cells})["b"].tolist() == [wanted]


def test_shapes_ragged_rows_where_the_signature_is_open() -> None:
    model = ServedModel(models.total(), outputs=[OutputColumn("sum", "DOUBLE"), OutputColumn("twice", "ARRAY<FLOAT>")])
    result = model.predict({"a": [[1.0], [1.0, 2.0], [3.0], "4 5 6", [0.5, 0.5]]})
    assert list(result["sum"]) == [1, 3, 3, 15, 1]
    assert [list(cell) for cell in result["twice"]] == [[2], [2, 4], [6], [8, 10, 12], [1, 1]]


def test_shapes_fixed_batch() -> None:
    for rows in (1, 3, 4, 9):
        result = ServedModel(models.identity("int32", (4, 2))).predict({"a": [[row, row] for row in range(rows)]})
        assert result["b"].tolist() == [[row, row] for row in range(rows)]


def test_shapes_batch_dimension_in_the_cell() -> None:
    model = ServedModel(
        models.identity("float32", (None, 2)), cells_hold_batches=True, outputs=[OutputColumn("b", "ARRAY<FLOAT>")]
    )
    result = model.predict({"a": [[[1, 2]], "3 4 5 6", "$1 2$7 8"]})
    assert [list(cell) for cell in result["b"]] == [[1, 2], [3, 4, 5, 6], [7, 8]]


def test_shapes_a_model_of_single_tensors() -> None:
    folder = models.identity("float32", ())
    with pytest.raises(SignatureError, match="has no batch dimension"):
        ServedModel(folder)
    model = ServedModel(folder, cells_hold_batches=True, outputs=[OutputColumn("b", "DOUBLE")])
    assert list(model.predict({"a": [1, 2]})["b"]) == [1, 2]


CELLS = [
    (None, "expected a value, got null"),
    ([1.0, 2.0], r"expected the shape \[3\], got \[2\]"),
    ([1.0, None, 2.0], "null elements"),
    ([[1.0], [1.0, 2.0]], "lists of different length"),
    ("1 2 x", "expected float32 numbers, got the string '1 2 x'"),
    ("$2$1 2 3", r"has 3 numbers, but its shape is \[2\]"),
    (b"123", "expected 4 bytes for each element, got 3 bytes"),
    ([1e300, 0.0, 0.0], "number 1e.300 does not fit into float32"),
    ({}, "expected numbers, got dict"),
]


@pytest.mark.parametrize(("cell", "message"), CELLS)
def test_bad_rows_does_not_fail_its_batch(cell: Any, message: str) -> None:
    good = [1.0, 2.0, 3.0]
    model = ServedModel(models.module())
    columns = {"x": [good, cell, good], "k": [1, 2, 3]}
    result, bad = model.predict_collecting(columns)
    assert [row for row, _ in bad] == [1]
    assert result["p"][0] == 1 and result["p"][1] is None and result["p"][2] == 3
    np.testing.assert_array_equal(
        result["logits"][2], expected(models.module(), {"x": np.array([good], "f4"), "k": np.array([3])})["logits"][0]
    )
    with pytest.raises(RowsError, match=rf"row 1: input 'x' \(float32 \[3\]\) from column 'x': .*{message}"):
        model.predict(columns)


@pytest.mark.parametrize(
    ("dtype", "cell"), [("int32", 1.5), ("uint8", 300), ("int8", -129), ("int64", 2**63), ("bool", 2), ("string", 1)]
)
def test_bad_rows_numbers_that_do_not_fit(dtype: str, cell: Any) -> None:
    result, bad = ServedModel(models.identity(dtype, (None,))).predict_collecting({"a": [0 if dtype != "string" else "", cell]})
    assert [row for row, _ in bad] == [1]
    assert result["b"][0] in (0, b"") and result["b"][1] is None


def test_bad_rows_that_the_model_refuses() -> None:
    model = ServedModel(models.module(), signature="look_up", outputs=[OutputColumn("found", "BIGINT")])
    result, bad = model.predict_collecting({"k": [0, 1, 99, 3, None, 4, -1]})
    assert result["found"] == [10, 11, None, 13, None, 14, None]
    assert [row for row, _ in bad] == [2, 4, 6]
    assert "the model rejects it: " in bad[0][1]


def test_bad_rows_one_input_is_bad_and_the_others_are_not() -> None:
    model = ServedModel(models.texts_and_numbers())
    result, bad = model.predict_collecting({"t": ["a", "bb", None, "dddd"], "x": [[1, 2], None, [3, 4], "5 6"]})
    assert (result["length"], result["sum"]) == ([1, None, None, 4], [3, None, None, 11])
    assert [row for row, _ in bad] == [1, 2]
    result, bad = model.predict_collecting({"t": ["a", "bb"], "x": [[1, 2], [3]]})
    assert (result["length"], [row for row, _ in bad]) == ([1, None], [1])


def test_bad_rows_masked_arrays() -> None:
    model = ServedModel(models.identity("int32", (None,)))
    result, bad = model.predict_collecting({"a": np.ma.masked_array([1, 2, 3], [False, True, False])})
    assert result["b"] == [1, None, 3] and bad[0][0] == 1


@pytest.mark.parametrize("batch_size", [2, 256])
def test_bad_rows_nulls_among_good_rows(batch_size: int) -> None:
    model = ServedModel(models.module(), batch_size=batch_size)
    columns = {"x": [None, [1, 2, 3], [4, 5, 6], [7, 8, 9], None], "k": [1, 2, None, 4, 5]}
    result, bad = model.predict_collecting(columns)
    assert [row for row, _ in bad] == [0, 2, 4]
    assert [message.split(" from ")[1] for _, message in bad] == [
        "column 'x': expected a value, got null",
        "column 'k': expected a value, got null",
        "column 'x': expected a value, got null",
    ]
    wanted = expected(models.module(), {"x": np.array([[1, 2, 3], [7, 8, 9]], "f4"), "k": np.array([2, 4])})
    assert [row for row, cell in enumerate(result["p"]) if cell is not None] == [1, 3]
    np.testing.assert_array_equal([result["logits"][1], result["logits"][3]], wanted["logits"])


def test_defaults_stand_for_nulls() -> None:
    x = np.ma.MaskedArray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[False] * 3, [False] * 3], "float32")
    with ServedModel(models.module(), defaults={"k": 7}) as model:
        assert model.predict({"x": x, "k": [1, None]})["p"].tolist() == [1.0, 7.0]
        assert model.predict({"x": x, "k": np.array([1, 2])})["p"].tolist() == [1.0, 2.0]
        assert model.predict({"x": x, "k": np.ma.MaskedArray([1, 2], [True, False])})["p"].tolist() == [7.0, 2.0]
        assert model.predict_collecting({"x": [None, x[0]], "k": [1, None]})[1][0][0] == 0, "x has none"
    with pytest.raises(ServingError, match="defaults names 'z'; the columns that feed the model are 'k', 'x'"):
        ServedModel(models.module(), defaults={"z": 1})
    with pytest.raises(ServingError, match=r"defaults: input 'k' .* from column 'k': expected int64 numbers"):
        ServedModel(models.module(), defaults={"k": "a lot"})


def test_bad_rows_only_nulls() -> None:
    result, bad = ServedModel(models.module()).predict_collecting({"x": [None, None], "k": [1, 2]})
    assert (result["p"], [row for row, _ in bad]) == ([None, None], [0, 1])


def test_bad_rows_many_are_counted() -> None:
    with pytest.raises(RowsError, match="row 4: .*; and 15 more rows") as caught:
        ServedModel(models.identity("int32", (None,))).predict({"a": ["x"] * 20})
    assert len(caught.value.bad) == 20


def test_intra_op_parallelism_is_applied() -> None:
    code = (
        "import tensorflow as tf; from akdl.serving.model import ServedModel\n"
        f"ServedModel({models.module()!r}, intra_op_parallelism=3)\n"
        "print(tf.config.threading.get_intra_op_parallelism_threads())"
    )
    assert in_fresh_interpreter(code) == "3"


def test_intra_op_parallelism_that_comes_too_late_is_told(caplog: pytest.LogCaptureFixture) -> None:
    models.module()
    ServedModel(models.module(), intra_op_parallelism=3).predict(models.rows(1))
    assert "intraOpParallelism 3 has no effect" in caplog.text


def test_threads() -> None:
    model = ServedModel(models.module(), batch_size=16)
    batches = [models.rows(40, seed) for seed in range(8)]
    wanted = [model.predict(columns)["logits"] for columns in batches]
    wrong: list[Any] = []

    def predict(columns: Any, logits: Any) -> None:
        for _ in range(30):
            if not np.array_equal(model.predict(columns)["logits"], logits):
                wrong.append(columns)

    threads = [threading.Thread(target=predict, args=pair) for pair in zip(batches, wanted)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in threads)
