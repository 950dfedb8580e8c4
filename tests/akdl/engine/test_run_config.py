"""What TF_CONFIG says: this process's task, and whether workers train in step."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

pytestmark = pytest.mark.estimator

IN_STEP = {"cluster": {"worker": ["a:1", "b:2", "c:3"]}, "task": {"type": "worker", "index": 1}}


@pytest.mark.tf
@pytest.mark.parametrize(
    ("cluster", "workers"),
    [
        ({}, 0),
        ({"chief": ["a:1"]}, 0),
        ({"worker": ["a:1", "b:2"]}, 2),
        ({"chief": ["a:1"], "worker": ["b:2", "c:3"]}, 3),
        ({"chief": ["a:1"], "worker": ["b:2"], "ps": ["c:3"]}, 0),
    ],
)
def test_in_step_workers_counts_the_workers_of_a_cluster_without_servers(
    cluster: dict[str, Any], workers: int
) -> None:
    from akdl.training.workers import in_step_workers

    assert in_step_workers({"TF_CONFIG": json.dumps({"cluster": cluster})}) == workers


@pytest.mark.tf
def test_read_task_returns_type_and_index() -> None:
    from akdl.process.ranks import read_task

    assert read_task({}) == (None, 0)
    assert read_task({"TF_CONFIG": json.dumps(IN_STEP)}) == ("worker", 1)


@pytest.mark.tf
def test_workers_in_step_do_not_save_by_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    from akdl.engine.run_config import generate_run_config

    monkeypatch.setenv("TF_CONFIG", json.dumps(IN_STEP))
    with pytest.raises(
        ValueError, match="got save_checkpoints_secs 60: set save_checkpoints_steps instead"
    ):
        generate_run_config(save_checkpoints_steps=None, save_checkpoints_secs=60)


CHIEF = {"cluster": {"chief": ["localhost:1"]}, "task": {"type": "chief", "index": 0}}
SERVERS = {
    "cluster": {"chief": ["localhost:1"], "worker": ["localhost:2"], "ps": ["localhost:3"]},
    "task": {"type": "worker", "index": 0},
}


def run_config(**options: Any) -> Any:
    from akdl.engine.run_config import generate_run_config

    return generate_run_config(**options)


@pytest.mark.tf
def test_run_config_has_defaults_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    monkeypatch.delenv("TF_CONFIG", raising=False)
    config = run_config(some_other_key=1)
    assert (
        config.save_checkpoints_steps,
        config.log_step_count_steps,
        config.keep_checkpoint_max,
    ) == (50, 10, 1)
    assert config.save_checkpoints_secs is None
    session = config.session_config
    assert (session.intra_op_parallelism_threads, session.inter_op_parallelism_threads) == (4, 1)
    assert session.gpu_options.allow_growth
    assert config.train_distribute is None
    assert tf.executing_eagerly()


@pytest.mark.tf
def test_run_config_passes_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    config = run_config(
        intra_op_parallelism_threads=2, keep_checkpoint_max=3, device_count={"GPU": 0}
    )
    assert config.session_config.intra_op_parallelism_threads == 2
    assert config.session_config.device_count == {"GPU": 0}
    assert config.keep_checkpoint_max == 3


@pytest.mark.tf
def test_run_config_chief_alone_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(CHIEF)
    monkeypatch.setenv("TF_CONFIG", text)
    config = run_config()
    assert config.is_chief
    assert not config.cluster_spec.jobs
    assert config.train_distribute is None
    assert os.environ["TF_CONFIG"] == text


@pytest.mark.tf
def test_run_config_of_a_worker_sees_only_itself_and_the_parameter_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps(SERVERS))
    config = run_config()
    assert config.num_ps_replicas == 1
    assert not config.is_chief
    assert list(config.session_config.device_filters) == ["/job:ps", "/job:worker/task:0"]


@pytest.mark.tf
def test_run_config_with_gpu_devices_shows_these_alone_and_leaves_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps(SERVERS))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "")
    config = run_config(gpu_devices=[1])
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    assert "TF_CONFIG" not in os.environ
    assert config.num_ps_replicas == 0
