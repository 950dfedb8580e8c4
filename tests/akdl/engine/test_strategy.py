"""Groups of processes under each strategy; the scripts are those of the e2e tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl import testing
from tests.support.tf_group import run_group

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

TYPES = {"x0": "FLOAT", "x1": "FLOAT", "label": "BIGINT"}


def tables(*sizes: int) -> list[dict[str, Any]]:
    """Shares of these sizes; the label says whether x0 > x1."""
    x = np.random.default_rng(3).uniform(-1, 1, [sum(sizes), 2])
    ends = np.cumsum(sizes)
    return [
        {"x0": part[:, 0], "x1": part[:, 1], "label": (part[:, 0] > part[:, 1]).astype(int)}
        for part in np.split(x, ends[:-1])
    ]


def choose(tmp_path: Path, **task: Any) -> Any:
    from akdl.engine.strategy import choose_strategy

    return choose_strategy(testing.batch_task_config([], TYPES, str(tmp_path), **task))


def test_strategy_of_one_process_is_the_default_one(tmp_path: Path) -> None:
    import tensorflow as tf

    assert choose(tmp_path) is tf.distribute.get_strategy()


def test_strategy_of_an_evaluator_is_the_default_one(tmp_path: Path) -> None:
    import tensorflow as tf

    cluster = {"chief": ["localhost:1"], "worker": ["localhost:2"], "ps": ["localhost:3"]}
    assert choose(tmp_path, cluster=cluster, task_type="evaluator") is tf.distribute.get_strategy()


@pytest.mark.parametrize("role", ["chief", "ps"])
def test_strategy_refuses_parameter_servers_without_workers(tmp_path: Path, role: str) -> None:
    cluster = {"chief": ["localhost:1"], "ps": ["localhost:2"]}
    with pytest.raises(
        ValueError,
        match="needs a worker besides the chief, .* the cluster has 1 chief, 1 ps: set numWorkers",
    ):
        choose(tmp_path, cluster=cluster, task_type=role)


def test_strategy_refuses_a_tensorflow_that_lacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    monkeypatch.setattr(tf, "__version__", "1.15.5")
    with pytest.raises(
        RuntimeError,
        match="MultiWorkerMirroredStrategy needs TensorFlow 2.0 or newer, found 1.15.5",
    ):
        choose(tmp_path, cluster={"chief": ["localhost:1"], "worker": ["localhost:2"]})


@pytest.mark.long
def test_keras_group_in_step_sees_each_row_once_per_epoch(tmp_path: Path) -> None:
    """Shares of different size: the group ends, and each row was seen once per epoch."""
    (row,) = run_group(
        tmp_path, "keras_allreduce.py", tables(61, 47), TYPES, {"batchSize": 12, "seed": 1}
    )
    assert row["strategy"] == "CollectiveAllReduceStrategy"
    assert row["rows"] == 108
    assert row["loss"] < 0.45


def test_keras_group_with_parameter_servers_learns_from_all_rows(tmp_path: Path) -> None:
    (row,) = run_group(
        tmp_path,
        "keras_ps.py",
        tables(75, 45),
        TYPES,
        {"seed": 1},
        num_servers=1,
        chief_coordinates=True,
    )
    assert row["strategy"] == "ParameterServerStrategyV2"
    assert row["rows"] == 120
    assert row["loss"] < 0.45


@pytest.mark.long
def test_estimator_continues_with_another_number_of_workers(tmp_path: Path) -> None:
    """Each worker trains at its own pace. The checkpoint is that of the parameter server, and each
    run makes the steps that are left.
    """
    checkpoints = tmp_path / "checkpoints"
    for shares, steps in (((40, 40, 40), 100), ((70, 50), 200)):
        folder, params = tmp_path / str(steps), {"maxSteps": steps}
        (row,) = run_group(
            folder,
            "estimator_dnn.py",
            tables(*shares),
            TYPES,
            params,
            1,
            checkpoint_dir=checkpoints,
        )
        assert row["steps"] >= steps
    assert row["accuracy"] > 0.9


@pytest.mark.long
def test_estimator_in_step_learns_in_the_steps_asked_for(tmp_path: Path) -> None:
    params = {"sync": True, "maxSteps": 150}
    (row,) = run_group(tmp_path, "estimator_dnn.py", tables(70, 50), TYPES, params, num_servers=1)
    assert row["steps"] == 150
    assert row["accuracy"] > 0.9


@pytest.mark.long
def test_estimator_in_step_until_the_first_has_no_more_rows(tmp_path: Path) -> None:
    params = {"sync": True, "numEpochs": 1, "batchSize": 20}
    (row,) = run_group(tmp_path, "estimator_dnn.py", tables(70, 20), TYPES, params, num_servers=1)
    assert row["steps"] == 1


@pytest.mark.parametrize(
    "raw",
    [pytest.param(False, marks=pytest.mark.long), pytest.param(True, marks=pytest.mark.slow)],
)
def test_estimator_in_step_makes_the_steps_of_the_largest_share(tmp_path: Path, raw: bool) -> None:
    """Shares of different size: all workers make the steps of the largest one, whoever opens the
    files.
    """
    params = {"numEpochs": 3, "maxSteps": 1000, "rawRows": raw}
    (row,) = run_group(tmp_path, "estimator_dnn.py", tables(30, 71), TYPES, params)
    assert row["steps"] == 11
    assert row["accuracy"] > 0.8


FULL_BATCH_SGD_TYPES = {**TYPES, "weight": "FLOAT"}
PARAMS = {"weightCol": "weight", "steps": 30}


@pytest.mark.long
def test_full_batch_sgd_a_group_gets_the_weights_of_one_process(tmp_path: Path) -> None:
    shares = tables(41, 17, 5)
    whole = {name: np.concatenate([share[name] for share in shares]) for name in TYPES}
    alone = run_full_batch_sgd(tmp_path / "alone", [{**whole, "weight": np.ones(63)}])
    group = run_full_batch_sgd(tmp_path / "group", [padded(share, 20) for share in shares])
    assert (alone["strategy"], group["strategy"]) == (
        "_DefaultDistributionStrategy",
        "CollectiveAllReduceStrategy",
    )
    assert alone["rows"] == group["rows"] == 63
    weights = json.loads(alone["weights"])
    np.testing.assert_allclose(json.loads(group["weights"]), weights, rtol=1e-12)
    assert weights[0] > 0.1 > -0.1 > weights[1]
    assert group["loss"] == pytest.approx(alone["loss"])


def run_full_batch_sgd(folder: Path, shares: list[dict[str, Any]]) -> dict[str, Any]:
    (row,) = run_group(folder, "full_batch_sgd.py", shares, FULL_BATCH_SGD_TYPES, PARAMS)
    return row


def padded(table: dict[str, Any], size: int) -> dict[str, Any]:
    """The table with rows of weight 0 and nonsense besides, so that it has at least this size."""
    missing = max(0, size - len(table["label"]))
    cells = {name: np.append(values, np.full(missing, 7)) for name, values in table.items()}
    return {**cells, "weight": np.append(np.ones(len(table["label"])), np.zeros(missing))}
