"""Models as functions of SQL, in the Table API: the package of PyFlink lacks the gateway that its
SQL client needs.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from operators import MemSourceBatchOp, MLEnv, model_function

pytestmark = pytest.mark.flink

MODULE = """
from operators import model_function

SCRIPT = {script!r}
churn = model_function(SCRIPT, "x0 FLOAT, x1 DOUBLE", "p DOUBLE")
told = model_function(SCRIPT, "x0 FLOAT, x1 DOUBLE", "p DOUBLE, text STRING", errorCol="why")
"""
SCORE = """
def load():
    return lambda batch: {"p": batch["x0"] + 2 * batch["x1"], "text": [f"{x:g}" for x in batch["x0"]]}
"""


@pytest.fixture
def modules(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder on the path with a module of functions."""
    (tmp_path / "score.py").write_text(SCORE)
    (tmp_path / "akdl_test_functions.py").write_text(
        MODULE.format(script=f"{tmp_path}/score.py:load")
    )
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_model_function_predicts_in_sql(env: MLEnv, modules: pathlib.Path) -> None:
    tables = env.btenv
    tables.execute_sql(
        "CREATE TEMPORARY FUNCTION churn AS 'akdl_test_functions.churn' LANGUAGE PYTHON"
    )
    tables.execute_sql(
        "CREATE TEMPORARY FUNCTION told AS 'akdl_test_functions.told' LANGUAGE PYTHON"
    )
    rows = MemSourceBatchOp([(1, 0.5), (2, 1.5), (3, None)], "id BIGINT, x FLOAT")
    tables.create_temporary_view("customers", rows.getOutputTable())
    with tables.execute_sql(
        "SELECT id, churn(x, 0.25) FROM customers WHERE x > 0"
    ).collect() as found:
        assert sorted(map(tuple, found)) == [(1, 1.0), (2, 2.0)]
    query = "SELECT id, t.p, t.text, t.why FROM (SELECT id, told(x, CAST(id AS DOUBLE)) AS t FROM customers)"
    with tables.execute_sql(query).collect() as found:
        first, second, third = sorted(map(tuple, found))
    assert (first, second) == ((1, 2.5, "0.5", None), (2, 5.5, "1.5", None))
    assert third[:3] == (3, None, None) and third[3].endswith("expected a value, got null")


@pytest.mark.parametrize(
    ("model", "params", "message"),
    [
        (
            "m",
            {"selectedCols": ["x"]},
            "model_function: remove the parameter 'selectedCols': the arguments of the function and its"
            " declared output say it",
        ),
        (
            "m",
            {"inferBatchSize": 0},
            "^model_function: parameter 'inferBatchSize': expected a whole number of at least 1",
        ),
        (
            "m",
            {"inferProcesses": 2},
            "model_function: 'inferProcesses' is a parameter of operators alone",
        ),
        ("absent.py:load", {}, "^model_function: predictFn 'absent.py'"),
        ("m", {"inferBatch": 1}, "^model_function has no parameter 'inferBatch' .did you mean"),
    ],
)
def test_wrong_parameters_of_a_model_function_are_refused(
    model: str, params: Any, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        model_function(model, "x FLOAT", "y DOUBLE", **params)
