"""How the rows of a dataset are cut into steps and parts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from akdl.training.user_functions import UserModule
from tests.akdl.keras.support import user_module

pytestmark = [pytest.mark.tf, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

NAME = "awf_create_train_dataset_fn"


def group(rank: int = 0, ranks: int = 1, local: int = 1) -> Any:
    return SimpleNamespace(rank=rank, ranks=ranks, local_replicas=local, replicas=ranks * local)


def source(function: Any, place: Any, batch_size: int, **more: Any) -> Any:
    from akdl.training.data import DatasetSource

    return DatasetSource(
        UserModule(user_module(**{NAME: function})), NAME, {"batch_size": batch_size}, place, **more
    )


def rows_of(
    function: Any, place: Any, batch_size: int, skip: int = 0, **more: Any
) -> list[list[list[int]]]:
    made = source(function, place, batch_size, **more)
    found = []
    for parts in made.steps(made.dataset(), skip):
        found.append([[] if part is None else part.label.numpy().tolist() for part in parts])
        assert [0 if part is None else part.rows for part in parts] == [
            len(rows) for rows in found[-1]
        ]
    return found


def numbers(count: int) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.range(count).map(lambda n: ((tf.cast(n, tf.float32), {"x": n}), n))


def test_runner_batches_of_one_process_have_all_rows() -> None:
    assert rows_of(lambda: numbers(5), group(), 2) == [[[0, 1]], [[2, 3]], [[4]]]


def test_runner_batches_are_divided_among_workers() -> None:
    steps = [rows_of(lambda: numbers(8), group(rank, 3), 5) for rank in range(3)]
    assert steps == [[[[0]], [[5]]], [[[1, 2]], [[6]]], [[[3, 4]], [[7]]]]


def test_runner_batches_leave_workers_without_rows_where_rows_are_few() -> None:
    assert [rows_of(lambda: numbers(4), group(rank, 3), 3)[1] for rank in range(3)] == [
        [[]],
        [[]],
        [[3]],
    ]


def test_runner_batches_are_divided_among_devices() -> None:
    assert rows_of(lambda: numbers(7), group(local=2), 4) == [[[0, 1], [2, 3]], [[4], [5, 6]]]


def test_runner_batches_of_own_rows_have_sizes_that_add_up_to_the_batch() -> None:
    """Five rows for three workers in each step: one, two and two."""
    steps = [rows_of(lambda: numbers(3), group(rank, 3), 5, own=True) for rank in range(3)]
    assert steps == [[[[0]], [[1]], [[2]]], [[[0, 1]], [[2]]], [[[0, 1]], [[2]]]]


def test_runner_batches_a_step_that_was_made() -> None:
    assert rows_of(lambda: numbers(5), group(), 2, skip=1) == [[[2, 3]], [[4]]]


def test_function_batches_the_size_is_that_of_a_replica() -> None:
    steps = [
        rows_of(lambda batch_size: numbers(7).batch(batch_size), group(rank, 3), 6)
        for rank in range(3)
    ]
    assert steps == [[[[0, 1]], [[6]]], [[[2, 3]]], [[[4, 5]]]]


def test_function_batches_are_dealt_to_the_devices_of_all_workers() -> None:
    steps = [
        rows_of(lambda batch_size: numbers(7).batch(batch_size), group(rank, 2, 2), 4)
        for rank in range(2)
    ]
    assert steps == [[[[0], [1]], [[4], [5]]], [[[2], [3]], [[6], []]]]


def test_function_batches_of_own_rows_are_dealt_to_this_worker_alone() -> None:
    assert rows_of(lambda batch_size: numbers(3).batch(batch_size), group(1, 3), 6, own=True) == [
        [[0, 1]],
        [[2]],
    ]


def test_function_batches_a_step_that_was_made() -> None:
    assert rows_of(lambda batch_size: numbers(5).batch(batch_size), group(), 2, skip=2) == [[[4]]]


def test_function_batches_without_rows_are_no_steps_where_a_training_resumes() -> None:
    import tensorflow as tf

    def make(batch_size: int) -> Any:
        batches = numbers(4).batch(1)
        # An empty batch follows each row.
        return batches.flat_map(
            lambda features, label: tf.data.Dataset.from_tensors((features, label)).concatenate(
                tf.data.Dataset.from_tensors(
                    tf.nest.map_structure(lambda one: one[:0], (features, label))
                )
            )
        )

    assert rows_of(make, group(), 1) == [[[0]], [[1]], [[2]], [[3]]]
    assert rows_of(make, group(), 1, skip=2) == [[[2]], [[3]]]


def test_function_batches_exact_steps_must_be_possible() -> None:
    with pytest.raises(
        ValueError, match="batch_size 8 cannot be divided among 3 replicas: set 6 or 9"
    ):
        source(lambda batch_size: None, group(0, 3), 8, exact=True)
    with pytest.raises(ValueError, match="batch_size 2 cannot be divided among 3 replicas: set 3"):
        source(lambda: None, group(0, 3), 2, exact=True)


def unbatched(*made: Any) -> Any:
    return source(lambda: made if len(made) > 1 else made[0], group(), 2).datasets()


def test_several_datasets_have_their_own_or_numbered_names() -> None:
    assert list(unbatched(numbers(1), numbers(2))) == ["0", "1"]
    assert list(unbatched({"a": numbers(1), "b": numbers(2)})) == ["a", "b"]
    assert list(unbatched(numbers(1))) == [""]


def test_datasets_of_different_structure_are_refused() -> None:
    import tensorflow as tf

    other = numbers(1).map(lambda x, n: (x, tf.cast(n, tf.float32)))
    with pytest.raises(
        ValueError,
        match="expected datasets of one structure; dataset a has .*int64.*, dataset b has",
    ):
        unbatched({"a": numbers(1), "b": other})
    with pytest.raises(ValueError, match="expected datasets of one structure"):
        unbatched(numbers(1), numbers(1).map(lambda x, n: (x[0], n)))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([1, 2], "dataset 0: expected a tf.data.Dataset, got int"),
        (3, "in user: expected a tf.data.Dataset, got int"),
        ({}, "expected one dataset or more, got an empty tuple or dict"),
    ],
)
def test_results_that_are_no_datasets_are_refused(made: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unbatched(made)


def test_elements_without_a_label_are_refused() -> None:
    with pytest.raises(
        ValueError,
        match=r"expected elements \(features, label\) or \(features, label, weight\), got",
    ):
        unbatched(numbers(1).map(lambda x, n: n))


def test_weight_of_none_stays_none() -> None:
    made = source(lambda: numbers(3).map(lambda x, n: (x, n, None)), group(1, 2), 2)
    assert [part.weight for parts in made.steps(made.dataset()) for part in parts] == [None, None]


def test_elements_of_features_alone_are_accepted_without_labels() -> None:
    import tensorflow as tf

    made = source(lambda: tf.data.Dataset.range(3), group(), 2, labelled=False)
    assert [part.features.numpy().tolist() for (part,) in made.steps(made.dataset())] == [
        [0, 1],
        [2],
    ]


def test_structure_sparse_features_are_cut_too() -> None:
    import tensorflow as tf

    rows = tf.sparse.from_dense([[1, 0], [0, 2], [3, 0], [0, 4]])
    data = tf.data.Dataset.from_tensor_slices((rows, [0, 1, 2, 3]))
    made = source(lambda: data, group(1, 2), 4)
    ((part,),) = made.steps(made.dataset())
    assert tf.sparse.to_dense(part.features).numpy().tolist() == [[3, 0], [0, 4]]


def test_worker_without_rows_gets_a_sample_of_another() -> None:
    """Another worker has some."""
    place = group(0, 2)
    place.sum = lambda own: own + 1
    made = source(lambda: numbers(0), place, 2)
    part = made.sample(made.dataset())
    assert np.shape(part.features[0]) == (1,) and part.rows == 1
