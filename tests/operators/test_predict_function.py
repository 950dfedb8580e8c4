"""Operators that predict with a function: what linking refuses, and jobs."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError, RowError, TaskError
from operators import (
    MemSourceBatchOp,
    MemSourceStreamOp,
    MLEnv,
    PredictBatchOp,
    PredictStreamOp,
    resetEnv,
    useLocalEnv,
)
from tests.e2e.stream_jobs import all_rows
from tests.support.uv import needs_package_index

pytestmark = pytest.mark.flink

ROWS = [
    (1, "a", 0.5, [1.0, 2.0]),
    (2**62 + 1, "b", 1.5, [3.0, 4.0]),
    (3, None, 2.5, [5.0, 6.0]),
    (4, "bad", 3.5, [7.0, 8.0]),
]
COLUMNS = "id BIGINT, s STRING, x DOUBLE, v ARRAY<FLOAT>"


@pytest.fixture(scope="module", autouse=True)
def env() -> Iterator[MLEnv]:
    yield useLocalEnv(1)
    resetEnv()


def load(factor: float = 1.0) -> Any:
    import os

    with open("words.txt") as file:
        words = file.read().split()

    def predict(batch: dict[str, Any]) -> dict[str, Any]:
        if not set(batch["s"]) <= set(words):
            raise ValueError("unknown word")
        pids = [os.getpid()] * len(batch["x"])
        return {"y": factor * batch["x"], "w": batch["v"] * 2, "n": batch["id"], "pid": pids}

    return predict


OUTPUTS = "y FLOAT, w ARRAY<FLOAT>, n BIGINT, pid INT"


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> dict[str, Any]:
    (tmp_path / "words.txt").write_text("a b")
    return {
        "predictFn": load, "userFiles": [str(tmp_path / "words.txt")], "userParams": {"factor": 2.0},
        "outputSchemaStr": OUTPUTS, "reservedCols": ["id"],
    }  # fmt: skip


@pytest.mark.fault(
    "data", "A row that a function rejects goes to the error column, and the others are predicted"
)
def test_function_predicts_tables_and_streams(settings: dict[str, Any]) -> None:
    batch = (
        MemSourceBatchOp(ROWS, COLUMNS)
        .link(PredictBatchOp(**settings, errorCol="why"))
        .collectToDataframe()
    )
    stream = MemSourceStreamOp(ROWS, COLUMNS).link(
        PredictStreamOp(**settings, errorCol="why", chunkWait=0.1)
    )
    found = sorted(batch.itertuples(index=False, name=None)), sorted(all_rows(stream))
    for first, null, bad, last in found:
        assert (
            first[:2] == (1, 1.0)
            and list(first[2]) == [2, 4]
            and first[3] == 1
            and first[5] is None
        )
        assert last[0] == last[3] == 2**62 + 1 and last[1] == 3 and last[4] == first[4], (
            "one process predicts all rows"
        )
        assert (
            null[0] == 3 and "column 's': expected a value, got null" in null[5] and null[2] is None
        )
        assert (
            bad[0] == 4
            and "load_function.py rejects it: ValueError: unknown word (load_function.py, line "
            in bad[5]
        )


@pytest.mark.parametrize(
    ("text", "params", "error", "message"),
    [
        (
            "def load(): raise OSError('no weights')",
            {},
            TaskError,
            "no weights\n.*score.py., line 1, in load",
        ),
        (
            "def load(): return lambda batch: {}",
            {"factor": 2},
            TaskError,
            "unexpected keyword argument 'factor'",
        ),
        pytest.param(
            "def load(): return lambda batch: {'z': 1}",
            {},
            TaskError,
            "expected a dict with the outputs 'y', got a dict with 'z'",
            marks=pytest.mark.long,
        ),
        (
            "def load(): return lambda batch: 1 / 0",
            {},
            RowError,
            "row 0 of a batch .* ZeroDivisionError: .* Set errorCol",
        ),
    ],
)
@pytest.mark.fault(
    "jobs", "A function that cannot be loaded, or returns something else, fails the job by name"
)
def test_failing_functions_fail_the_job_by_name(
    tmp_path: pathlib.Path, text: str, params: Any, error: type[Exception], message: str
) -> None:
    (tmp_path / "score.py").write_text(text)
    op = PredictBatchOp(
        predictFn=f"{tmp_path}/score.py:load",
        userParams=params,
        outputSchemaStr="y DOUBLE",
        selectedCols=["x"],
    )
    with pytest.raises(error, match=f"(?s)^PredictBatchOp: .*{message}"):
        MemSourceBatchOp(ROWS[:1], COLUMNS).link(op).collectToDataframe()


@pytest.mark.parametrize(
    ("predict_fn", "message"),
    [
        (
            "score.py",
            "parameter 'predictFn': expected \"FILE.py:FUNCTION\", or a function defined with def, got",
        ),
        (5, 'expected "FILE.py:FUNCTION"'),
        (lambda: None, "a lambda cannot travel"),
        ("absent.py:load", "PredictBatchOp: predictFn 'absent.py': "),
        (
            "score.py:laod",
            "predictFn: score.py defines no function 'laod' \\(did you mean 'load'\\?\\)",
        ),
        ("block.py:load", "predictFn: expected one block `# /// script`, found 2"),
    ],
)
def test_wrong_predict_fn_is_refused_when_linked(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, predict_fn: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "score.py").write_text("def load(): ...\n")
    (tmp_path / "block.py").write_text(
        2 * "# /// script\n# dependencies = []\n# ///\n" + "def load(): ...\n"
    )
    data = MemSourceBatchOp(ROWS, COLUMNS)
    with pytest.raises(ConfigurationError, match=message):
        data.link(PredictBatchOp(predictFn=predict_fn, outputSchemaStr="y DOUBLE"))


SKLEARN = """
# /// script
# dependencies = ["scikit-learn"]
# ///
import importlib.util
import numpy as np
from sklearn.linear_model import LogisticRegression

def load():
    x = np.linspace(-1, 1, 100)[:, None]
    model = LogisticRegression().fit(x, x[:, 0] > 0)
    assert importlib.util.find_spec("tensorflow") is None
    return lambda batch: {"p": model.predict_proba(batch["x"][:, None])[:, 1], "more": model.predict(batch["x"][:, None])}
"""


@pytest.mark.slow
def test_scikit_learn_predicts_in_an_environment_of_its_own(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment without TensorFlow, made from requirements in the file of the function."""
    needs_package_index()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "score.py").write_text(SKLEARN)
    op = PredictBatchOp(
        predictFn=f"{tmp_path}/score.py:load",
        outputSchemaStr="p DOUBLE, more BOOLEAN",
        selectedCols=["x"],
        reservedCols=["x"],
    )
    rows = [(-0.9,), (0.9,)]
    (low, high) = (
        MemSourceBatchOp(rows, "x DOUBLE")
        .link(op)
        .collectToDataframe()
        .sort_values("x")
        .itertuples(index=False)
    )
    assert low.p < 0.4 and not low.more and high.p > 0.6 and high.more
