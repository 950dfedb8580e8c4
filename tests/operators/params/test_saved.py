"""Parameters that a file of somebody else may set, and those that it may not."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from operators.params import catalog
from operators.params.saved import HARMLESS, saved_params

SCHEMA = {"outputSchemaStr": "y FLOAT"}
HARMFUL = {
    "modelPath", "modelFilePath", "modelStreamFilePath", "modelStreamStartTime", "pythonEnv", "envVars", "candidatePath",
    "candidateShare", "trusted",
}  # fmt: skip


def test_each_parameter_of_a_predictor_is_harmless_or_refused() -> None:
    params = {
        param.name for param in (*catalog.PREDICT_STREAM, *catalog.SAVED_MODEL_PREDICT_STREAM)
    }
    assert params == HARMLESS | HARMFUL and not HARMLESS & HARMFUL


@pytest.mark.parametrize("name", sorted(HARMFUL))
def test_saved_parameters_of_code_files_and_environments_are_refused(name: str) -> None:
    with pytest.raises(
        ConfigurationError,
        match=f"^p.akdl: the file sets '{name}'.*if you trust this one, pass trusted=True",
    ):
        saved_params("p.akdl", {**SCHEMA, name: "hunter2"}, trusted=False)


def test_unset_parameters_of_a_saved_file_are_not_refused() -> None:
    given = {
        "pythonEnv": "",
        "envVars": [],
        "modelFilePath": None,
        "errorCol": None,
        "reservedCols": [],
        "schemaStr": "y FLOAT",
    }
    assert saved_params("p.akdl", given, trusted=False) == {
        "outputSchemaStr": "y FLOAT",
        "reservedCols": [],
    }


def test_trusted_file_may_set_every_parameter() -> None:
    given = {**SCHEMA, "pythonEnv": "/env", "envVars": ["A=b"]}
    assert saved_params("p.akdl", given, trusted=True) == given


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "the file does not set the required parameter 'outputSchemaStr'"),
        (
            {**SCHEMA, "outputShemaStr": 1},
            r"the file sets the unknown parameter 'outputShemaStr' \(did you mean 'outputSchemaStr'\?\)",
        ),
        (
            {**SCHEMA, "inferBatchSize": "x" * 100},
            "parameter 'inferBatchSize': expected a whole number.*, got 'x+[.]{3}$",
        ),
        (
            {**SCHEMA, "startTimeout": 10**400},
            "parameter 'startTimeout': expected a number of seconds.*, got 10+",
        ),
        ({**SCHEMA, "defaults": "["}, "parameter 'defaults': expected a JSON object"),
        ({"outputSchemaStr": "y FLOTE"}, "parameter 'outputSchemaStr': .*unknown type 'FLOTE'"),
        (
            {**SCHEMA, "modelPath": {"password": "hunter2"}},
            "parameter 'modelPath': expected .*, got a value of type dict$",
        ),
    ],
)
def test_wrong_values_of_a_saved_file_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^p.akdl: {words}"):
        saved_params("p.akdl", given, trusted=True)
