"""Parameters as numbers and as text."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from akdl.runner.user_params import plain, with_text

GIVEN = {
    "n": 16,
    "x": 0.5,
    "on": True,
    "off": False,
    "name": "a",
    "none": None,
    "list": [True, 1],
    "map": {"on": True},
}


def test_user_params_behave_as_the_values_of_json() -> None:
    params = with_text(GIVEN)
    assert (
        params == GIVEN and list(range(params["n"]))[-1] == 15 and params["n"] * params["x"] == 8.0
    )
    assert (
        params["on"]
        and not params["off"]
        and isinstance(params["n"], int)
        and isinstance(params["x"], float)
    )
    assert {params["n"]: 1}[16] == 1 and params["n"] != 17 and params["on"] == True  # noqa: E712
    assert all(
        params[name] != other for name in ("n", "x", "on", "off") for other in (None, [], object())
    )
    assert params["list"][0] is True and params["map"]["on"] is True, (
        "what lies deeper stays as it is"
    )


@pytest.mark.parametrize(
    ("name", "text"), [("n", "16"), ("x", "0.5"), ("on", "true"), ("off", "false")]
)
def test_user_params_behave_as_texts_too(name: str, text: str) -> None:
    value = with_text(GIVEN)[name]
    assert value == text and text == value and value in (text, "?") and not value != text
    assert str(value) == f"{value}" == "%s" % value == text  # noqa: UP031  scripts of Alink do so
    assert (
        value != text + "0"
        and value.upper() == text.upper()
        and json.loads(str(value)) == GIVEN[name]
    )


def test_plain_user_params_have_the_exact_types_of_json() -> None:
    found = plain(with_text(GIVEN))
    assert (
        found == GIVEN
        and found["on"] is True
        and type(found["n"]) is int
        and type(found["x"]) is float
    )


def test_copies_of_user_params_are_equal_and_unknown_attributes_refused() -> None:
    params = with_text(GIVEN)
    for copied in (copy.deepcopy(params), pickle.loads(pickle.dumps(params))):
        assert copied == GIVEN and copied["on"] == "true"
    with pytest.raises(AttributeError):
        params["n"].no_such_method()
    assert repr(params["on"]) == "True" and repr(params["n"]) == "16"


@pytest.mark.tf
def test_tensorflow_accepts_user_params_as_numbers() -> None:
    import tensorflow as tf

    params = with_text(GIVEN)
    assert (
        tf.constant(params["n"]).dtype == tf.int32 and tf.constant(params["x"]).dtype == tf.float32
    )
    assert not tf.convert_to_tensor(params["off"], tf.bool)
    batch = next(
        iter(
            tf.data.Dataset.range(40)
            .repeat(params["on"])
            .batch(params["n"], drop_remainder=params["on"])
        )
    )
    layer = tf.keras.layers.Dense(params["n"], use_bias=params["off"])
    assert (
        batch.shape == [16] and layer(tf.ones([1, 2])).shape == [1, 16] and len(layer.weights) == 1
    )
