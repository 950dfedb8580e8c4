"""Names of Alink that are not here are answered on every class, and as keywords."""

from __future__ import annotations

import pytest

import operators
from bridge.exceptions import ConfigurationError
from operators import (
    AkSinkBatchOp,
    KerasSequentialRegressor,
    LocalPredictor,
    Pipeline,
    PipelineModel,
    TFSavedModelPredictor,
)
from operators.alink.missing_names import INSTEAD, instead_of, operator_instead
from operators.params.param import WithParams

CLASSES = [
    AkSinkBatchOp,
    KerasSequentialRegressor,
    LocalPredictor,
    Pipeline,
    PipelineModel,
    TFSavedModelPredictor,
]


@pytest.mark.parametrize("kind", CLASSES)
def test_missing_names_of_alink_are_answered_in_one_line(kind: type) -> None:
    """Where a class has the name itself, that is what its users get."""
    made = kind.__new__(kind)
    for name, text in INSTEAD.items():
        capital = name[0].upper() + name[1:]
        for asked in (name, f"set{capital}", f"get{capital}"):
            if hasattr(kind, asked):
                continue
            with pytest.raises(AttributeError) as raised:
                getattr(made, asked)
            expected = "" if instead_of(asked) == "" else f": {text}"
            assert str(raised.value).startswith(f"{kind.__name__} has no {asked!r}{expected}")
            assert "\n" not in str(raised.value)


def test_missing_keywords_of_alink_are_answered() -> None:
    with pytest.raises(
        ConfigurationError,
        match="^AkSinkBatchOp has no parameter 'partitionCols': use a CsvSinkBatchOp",
    ):
        AkSinkBatchOp(partitionCols=["a"])
    with pytest.raises(
        ConfigurationError,
        match=r"no parameter 'filePat' \(did you mean 'filePath'\?\); it has filePath",
    ):
        AkSinkBatchOp(filePat="a")


def test_unknown_names_get_the_nearest_name() -> None:
    with pytest.raises(AttributeError, match=r"Pipeline has no 'fitt' \(did you mean 'fit'\?\)"):
        Pipeline().fitt  # noqa: B018
    assert instead_of("settle") == instead_of("get") == ""


def test_answers_about_existing_parameters_name_the_class_that_has_them() -> None:
    """A parameter of the list that some class has is named with where it is."""
    kinds = [
        each
        for each in vars(operators).values()
        if isinstance(each, type) and issubclass(each, WithParams)
    ]
    known = {param.name for kind in kinds for param in kind.params}
    assert {name for name in INSTEAD if name in known and "have it" not in INSTEAD[name]} == set()


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("ToTensorBatchOp", "use the method toTensor of a BatchOperator or StreamOperator"),
        ("VectorToTensorStreamOp", "use the method toTensor of a BatchOperator or StreamOperator"),
        ("ToVectorBatchOp", "use the method toVector of a BatchOperator or StreamOperator"),
        ("TypeConvertBatchOp", "use the method convertTypes of a BatchOperator or StreamOperator"),
        (
            "VectorAssemblerBatchOp",
            'use select("*, ARRAY[a, b] AS x") with the columns a and b of a BatchOperator',
        ),
        ("SelectLocalOp", "use the method select of a BatchOperator or StreamOperator"),
        ("UnionAllBatchOp", "use the method unionAll of a BatchOperator or StreamOperator"),
        ("BertTextClassifierBatchOp", ""),
        ("frame", ""),
    ],
)
def test_missing_operators_of_alink_are_answered(name: str, use: str) -> None:
    methods = dir(operators.BatchOperator)
    for words in (
        "name '{}' is not defined",
        "cannot import name '{}' from 'operators'",
        "module 'operators' has no attribute '{}'",
    ):
        told = operator_instead(words.format(name), methods)
        assert told.startswith(f": {use}") if use else told == ""
    assert operator_instead(f"{name} is here", methods) == ""
