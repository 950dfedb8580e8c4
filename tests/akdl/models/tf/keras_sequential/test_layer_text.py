"""Layers as text, parsed and never evaluated."""

from __future__ import annotations

import pathlib

import pytest

from akdl.models.tf.keras_sequential.layer_text import (
    OPTIMIZERS,
    Call,
    LayerTextError,
    make,
    parse_call,
)


def test_parse_call_reads_calls_with_literals() -> None:
    assert parse_call("Dense(64, activation='relu')") == Call("Dense", [64], {"activation": "relu"})
    assert parse_call(" tf.keras.layers.Reshape((-1, 2), name=None) ") == Call(
        "Reshape", [(-1, 2)], {"name": None}
    )
    inner = Call("LSTM", [8], {"return_sequences": True})
    assert parse_call("layers.Bidirectional(keras.layers.LSTM(8, return_sequences=True))") == Call(
        "Bidirectional", [inner], {}
    )
    assert parse_call("Adam(0.1)", OPTIMIZERS) == Call("Adam", [0.1], {})


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("Dense(", "expected a Python expression"),
        ("Dense(1" + " + 1" * 5000 + ")", r"\.\.\.: expected at most 10000 characters, got 20008$"),
        ("Dense(" + "-" * 5000 + "1)", r"^'Dense\(-+'\.\.\."),
        ("Dense", "expected a call such as"),
        ("__import__('os').system('true')", "expected a name"),
        ("os.system('true')", "expected a name of tf.keras.layers, got os.system"),
        ("tf.io.read_file('x')", "expected a name of tf.keras.layers, got tf.io.read_file"),
        ("_Dense(1)", "got _Dense"),
        ("Dense(lambda: 1)", "arguments may be numbers, strings"),
        ("Dense([x for x in (1,)])", "arguments may be"),
        ("Dense(1 .__class__)", "arguments may be"),
        ("Dense(1, activation=[{'module': 'os'}])", "dicts of them without the key 'module'"),
        ("Dense(*[1])", r"expected literals, got \* or \*\*"),
        ("Dense(**{'units': 1})", r"expected literals, got \* or \*\*"),
        ("(lambda: 1)()", "expected a name before the brackets"),
        ("keras.optimizers.Adam()", "expected a name of tf.keras.layers"),
    ],
)
def test_parse_call_refuses_anything_but_calls_with_literals(text: str, match: str) -> None:
    with pytest.raises(LayerTextError, match=match):
        parse_call(text)


@pytest.mark.tf
def test_make_builds_nested_layers_and_refuses_wrong_arguments() -> None:
    import tensorflow as tf

    assert make(parse_call("Bidirectional(LSTM(3))"))(tf.ones([1, 2, 4])).shape == [1, 6]
    assert (
        float(make(parse_call("Adam(learning_rate=0.5)", OPTIMIZERS), OPTIMIZERS).learning_rate)
        == 0.5
    )
    for text in ("open('x')", "Dense(open('x'))", "Lambda('x')", "Dance(1)", "Layer.build(1)"):
        with pytest.raises(LayerTextError):
            make(parse_call(text))
    decayed = parse_call("Dense(1, kernel_regularizer={'class_name': 'L2', 'config': {'l2': 0.5}})")
    assert float(make(decayed).kernel_regularizer.l2) == 0.5
    with pytest.raises(LayerTextError, match="tf.keras.layers.Dense does not take these arguments"):
        make(parse_call("Dense(1, unit=2)"))


@pytest.mark.tf
@pytest.mark.parametrize("name", ["IntegerLookup", "StringLookup", "TextVectorization"])
@pytest.mark.fault("security", "A layer of a text reads no file of the host into the model")
def test_layers_that_read_files_are_refused(name: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "words").write_text("1\n2\n")
    with pytest.raises(LayerTextError, match=f"that text can describe, got '{name}'"):
        make(parse_call(f"TimeDistributed({name}(vocabulary={str(tmp_path / 'words')!r}))"))
