"""Common number of steps of workers in step; one worker is enough for a collective."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.mark.parametrize("steps", [1, 3])
def test_training_ends_after_the_steps_of_the_largest_share(steps: int) -> None:
    import tensorflow.compat.v1 as tf

    from akdl.engine.estimator_group import CommonSteps

    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        train = tf.assign_add(step, 1)
        made = 0
        with tf.train.MonitoredSession(hooks=[CommonSteps(steps, 0, 1)]) as session:
            while not session.should_stop():
                made = session.run(train)
    assert made == steps


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
