"""Parameters: setters and getters made from declarations, and what they refuse."""

from __future__ import annotations

import inspect

import pytest

from bridge.exceptions import ConfigurationError
from operators import BatchOperator, TensorFlow2BatchOp
from operators.params.param import REQUIRED, Param, with_params


def _positive(value: int) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError("a positive number")
    return value


def _text(value: str) -> str:
    return value


SIZE = Param("size", "How large it is.", _positive, REQUIRED, aliases=("bigness",))
COLOR = Param("color", "Its color.", _text, "red")
Thing = with_params("Thing", "A thing.", (SIZE, COLOR))


def test_setters_return_the_operator_and_getters_the_value() -> None:
    thing = Thing()
    assert thing.setSize(3).setColor("blue") is thing
    assert (thing.getSize(), thing.getColor()) == (3, "blue")


def test_an_alias_is_the_same_parameter() -> None:
    assert Thing().setBigness(4).getSize() == 4
    assert Thing(bigness=5).getBigness() == 5


def test_constructors_show_their_parameters_to_editors() -> None:
    signature = inspect.signature(type("Op", (Thing,), {}))
    assert str(signature) == "(*, size: 'int', color: 'str' = 'red')"
    assert "numWorkers" in inspect.signature(TensorFlow2BatchOp).parameters


def test_text_of_an_operator_shows_set_parameters() -> None:
    assert (repr(Thing()), repr(Thing(bigness=5))) == ("Thing", "Thing(size=5)")


def test_getter_returns_the_default_of_an_unset_parameter() -> None:
    assert Thing().getColor() == "red"


def test_setting_none_restores_the_default() -> None:
    assert Thing(size=3, color=None).setColor("blue").setColor(None).getColor() == "red"
    with pytest.raises(ConfigurationError, match="'size' is not set and has no default"):
        Thing(size=3).setSize(None).getSize()


def test_two_operators_do_not_share_values() -> None:
    assert Thing(color="blue").getColor() != Thing().getColor()


def test_the_constructor_is_cooperative() -> None:
    op = TensorFlow2BatchOp(numWorkers=2)
    assert op.getNumWorkers() == 2
    assert isinstance(op, BatchOperator) and op._groups == {}


def test_wrong_value_is_refused_with_name_expectation_and_type() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Thing().setSize(0)
    assert (
        str(raised.value)
        == "Thing: parameter 'size': expected a positive number, got 0 of type int"
    )


def test_wrong_value_of_an_alias_is_refused_under_that_name() -> None:
    with pytest.raises(ConfigurationError, match="'bigness': expected a positive number"):
        Thing(bigness=-1)


def test_unknown_keywords_are_listed_all_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Thing(sise=1, size=1, kolor="red")
    assert (
        str(raised.value)
        == "Thing has no parameter 'sise', 'kolor' (did you mean 'size'?); it has size, color"
    )


def test_misspelled_setter_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(
        AttributeError,
        match=r"^TensorFlow2BatchOp has no 'setNumWorker' \(did you mean 'setNumWorkers'\?\)$",
    ):
        TensorFlow2BatchOp().setNumWorker(2)


def test_parameter_given_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Thing: 'size' is given twice, also as 'bigness'"):
        Thing(size=1, bigness=2)


def test_getting_a_required_parameter_that_is_not_set() -> None:
    with pytest.raises(
        ConfigurationError, match="Thing: parameter 'size' is not set and has no default"
    ):
        Thing().getSize()


def test_all_missing_parameters_are_named_in_one_error() -> None:
    with pytest.raises(ConfigurationError) as raised:
        TensorFlow2BatchOp(userFiles=[])._values_of_all()
    assert (
        str(raised.value)
        == "TensorFlow2BatchOp: set 'mainScriptFile', 'outputSchemaStr' before it is linked or run"
    )


def test_values_of_all_includes_defaults() -> None:
    assert Thing(size=2)._values_of_all() == {"size": 2, "color": "red"}


def test_parameter_set_too_late_is_refused() -> None:
    thing = Thing(size=1)
    thing._fix()
    with pytest.raises(ConfigurationError, match="'size' is set too late"):
        thing.setSize(2)
    assert thing.getSize() == 1


def test_accessors_have_docstrings_and_signatures() -> None:
    assert Thing.setSize.__doc__ == "Set `size`. How large it is. (required)"
    assert Thing.getColor.__doc__ == "Return `color`. Its color. (default 'red')"
    assert Thing.setBigness.__qualname__ == "Thing.setBigness"
    assert str(inspect.signature(Thing.setSize)) == "(self, value: 'int') -> 'Self'"
    assert str(inspect.signature(Thing.getSize)) == "(self) -> 'int'"
