"""Common number of steps of workers in step; one worker is enough for a collective."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from akdl import testing

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def steps_with(hook: Any) -> int:
    """Count the steps of a training with a hook."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        train = tf.assign_add(step, 1)
        made = 0
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            while not session.should_stop():
                made = session.run(train)
    return made


@pytest.mark.parametrize("steps", [1, 3])
def test_training_ends_after_the_steps_of_the_largest_share(steps: int) -> None:
    from akdl.engine.estimator_group import CommonSteps

    assert steps_with(CommonSteps(steps, 0, 1)) == steps


@pytest.mark.parametrize(("replicas", "steps"), [(1, 6), (2, 3), (4, 2)])
def test_worker_with_several_devices_reads_each_row_once_per_epoch(
    replicas: int, steps: int, tmp_path: Path
) -> None:
    """11 rows, twice, in batches of 4 for each device."""
    from akdl.engine.train import _in_common_steps

    config = testing.train_task_config({"x": list(range(11))}, {"x": "INT"}, str(tmp_path))
    (hook,) = _in_common_steps({"num_epochs": 2, "batch_size": 4}, config, replicas)["hooks"]
    assert steps_with(hook) == steps


@pytest.mark.parametrize(("make", "rows"), [("finite", 7), ("filtered", 4), ("infinite", None)])
def test_count_rows_counts_a_dataset_unless_it_is_infinite(make: str, rows: int | None) -> None:
    import tensorflow as tf

    from akdl.engine.estimator_group import count_rows

    def dataset() -> Any:
        numbers = tf.data.Dataset.range(7)
        return {
            "finite": numbers,
            "filtered": numbers.filter(lambda n: tf.equal(n % 2, 0)),
            "infinite": numbers.repeat(),
        }[make]

    assert count_rows(dataset) == rows
