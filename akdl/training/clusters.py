"""The cluster of TF_CONFIG, and sums over workers that train in step."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from akdl.process.ranks import read_cluster
from akdl.tf_version import tf_version


def in_step_workers(environment: Mapping[str, str]) -> int:
    """Count the workers that train in step, with the chief.

    The result is 0 with parameter servers and for a process alone.
    """
    cluster = read_cluster(environment)
    # A chief alone has no workers in its cluster.
    if "worker" not in cluster or "ps" in cluster:
        return 0
    return sum(len(cluster.get(role, [])) for role in ("chief", "worker"))


def is_parameter_server_strategy(strategy: Any) -> bool:
    """Test for the strategy of TensorFlow 2 for parameter servers."""
    # Before TensorFlow 2.4 the class of this name is the one for Estimators.
    return tf_version() >= (2, 4) and isinstance(
        strategy, strategy_named("ParameterServerStrategy")
    )


def sum_over_workers(strategy: Any) -> Callable[[Sequence[float]], list[float]] | None:
    """Return a function that sums numbers over workers in step; None without such workers.

    All workers have to call the function the same number of times: it blocks until the last one
    does.
    """
    if tf_version() < (2, 0) or not isinstance(
        strategy, strategy_named("MultiWorkerMirroredStrategy")
    ):
        return None
    total = worker_sums(strategy)
    return lambda values: list(map(float, total(list(values))))


def worker_sums(strategy: Any) -> Callable[[Any], Any]:
    """Return a function that sums arrays over all workers as float64; all of them call it.

    The array must not be empty: that kills the process.
    """
    import tensorflow as tf

    def all_reduce(values: Any) -> Any:
        def reduce(own: Any) -> Any:
            # The strategy needs a tensor on the replica's device; an argument is on no device.
            return tf.distribute.get_replica_context().all_reduce(
                tf.distribute.ReduceOp.SUM, tf.identity(own)
            )

        return strategy.run(reduce, args=(values,))

    in_graph = tf.function(all_reduce)

    def total(values: Any) -> Any:
        replicas = strategy.experimental_local_results(in_graph(tf.constant(values, tf.float64)))
        # Each replica of a worker has added the values of its worker, so they are in the sum once
        # per replica.
        return replicas[0].numpy() / len(replicas)

    return total


def strategy_named(name: str) -> Any:
    """Return a strategy class, which left `experimental` in TensorFlow 2.4 or later."""
    import tensorflow as tf

    return getattr(tf.distribute, name, None) or getattr(tf.distribute.experimental, name)
