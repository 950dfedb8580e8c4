"""Groups that train together, on the embedded mini cluster: real TensorFlow, real strategies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from operators import TaskError, getMLEnv, useLocalEnv
from tests.e2e.jobs import points, train_op

pytestmark = [pytest.mark.estimator, pytest.mark.flink, pytest.mark.tf, pytest.mark.slow]

SGD = "strategy STRING, loss FLOAT, `rows` BIGINT, weights STRING"


@pytest.fixture(scope="module", autouse=True)
def _local_env() -> Iterator[None]:
    """Jobs run behind a proxy that does not answer, as on hosts of many companies, and no variable
    says what to leave out.
    """
    useLocalEnv(2)
    # Java runs: PyFlink's own programs, of which tests have forks, do need `no_proxy`
    assert getMLEnv().btenv is not None
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "https_proxy"):
            patch.setenv(name, "http://127.0.0.1:9")
        for name in ("grpc_proxy", "no_grpc_proxy", "no_proxy", "NO_PROXY"):
            patch.delenv(name, raising=False)
        yield


def full_batch_sgd(workers: int, mode: str, **params: Any) -> Any:
    op = train_op(
        "full_batch_sgd.py",
        SGD,
        numWorkers=workers,
        numPSs=0,
        userParams={"steps": 30, "weightCol": "weight"},
        **params,
    )
    (row,) = points(getattr(getMLEnv(), mode), 61).link(op).collectToDataframe().itertuples()
    return row


@pytest.mark.fault(
    "network", "A group trains although the proxy of the environment does not answer"
)
def test_full_batch_descent_of_a_group_equals_that_of_one_process() -> None:
    """In float64, so a row that is lost, repeated or weighted wrongly would show, and the order of
    sums would not.
    """
    alone = full_batch_sgd(1, "btenv")
    padded = full_batch_sgd(2, "btenv", equalSteps="pad")
    uneven = full_batch_sgd(2, "stenv")
    for group in (padded, uneven):
        assert (alone.strategy, group.strategy) == (
            "_DefaultDistributionStrategy",
            "CollectiveAllReduceStrategy",
        )
        assert alone.rows == group.rows == 61
        np.testing.assert_allclose(json.loads(group.weights), json.loads(alone.weights), rtol=1e-10)
    assert json.loads(alone.weights)[0] > 0.1 > -0.1 > json.loads(alone.weights)[1]


@pytest.mark.fault(
    "scripts", "A worker that returns while the chief waits for it is named within seconds"
)
def test_a_worker_that_returns_early_is_named_before_tensorflow_misses_it() -> None:
    """The chief waits for it in a step. TensorFlow would speak of a heartbeat timeout, after 10
    seconds and more.
    """
    op = train_op("one_returns.py", SGD, "full_batch_sgd.py", numWorkers=2, numPSs=0, userParams={})
    with pytest.raises(TaskError) as caught:
        points(getMLEnv().btenv, 30).link(op).collectToDataframe()
    text = str(caught.value)
    assert "chief 0 (one_returns.py): the script failed: " in text
    assert "has returned and does not take part in further operations" in text
    assert "Before this error, the script had returned in worker 0 on " in text
    assert "heartbeat" not in text
