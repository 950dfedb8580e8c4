"""The workers of TF_CONFIG, and the group that trains one model in step: this process's rank, the
strategy, and sums.

All agreements of the Keras runner are sums over the workers (`Group.sum`): whether rows are left,
whether all see the same checkpoint, whether one of them has failed.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from akdl.process.ranks import read_cluster, read_task
from akdl.tf_version import tf_version


class Group:
    """The workers of TF_CONFIG, or this process alone; it exists as long as the task.

    Make it before any other use of TensorFlow, because a strategy for several workers starts a
    server when it is made, and has to exist before the first variable.

    A replica is a device with a copy of the model. `devices` of a process alone are names such as
    "GPU:0"; None for all GPUs. `rank` 0 is the chief, which writes checkpoints and models.
    """

    def __init__(
        self, environment: Mapping[str, str] = os.environ, devices: Sequence[str] | None = None
    ) -> None:
        cluster = {role: hosts for role, hosts in read_cluster(environment).items() if hosts}
        others = sorted(set(cluster) - {"chief", "worker", "master"})
        if others:
            raise ValueError(
                "TF_CONFIG: the Keras runner expects workers in step, without parameter servers"
                f" and evaluators, got {', '.join(others)}: set numPSs to 0"
            )
        # The order of roles is fixed, so that all workers give each member the same rank.
        members: list[tuple[str | None, int]] = [
            (role, index)
            for role in ("chief", "master", "worker")
            for index in range(len(cluster.get(role, [])))
        ]
        self.ranks = max(1, len(members))
        own = read_task(environment)
        if self.ranks > 1 and own not in members:
            raise ValueError("TF_CONFIG: expected a task of its cluster, got {} {}".format(*own))
        self.rank = members.index(own) if self.ranks > 1 else 0
        if self.ranks > 1 and devices:
            raise ValueError(
                "devices can be set for a process alone only: for workers of a group set"
                " CUDA_VISIBLE_DEVICES"
            )
        self.strategy = self._choose(devices)
        self.replicas = int(self.strategy.num_replicas_in_sync)
        self.local_replicas = self.replicas // self.ranks
        self._total = worker_sums(self.strategy)

    @property
    def is_chief(self) -> bool:
        return self.rank == 0

    def sum(self, values: object) -> Any:
        """Sum an array over all workers, as float64.

        All workers have to call this in the same order with arrays of one shape: it blocks until
        the last one does. float64 holds counts of rows exactly, up to 2^53.
        """
        array = np.asarray(values, np.float64)
        # The sum of an empty array kills the process. All workers return here, because all have the
        # same shape.
        if self.ranks == 1 or not array.size:
            return array
        return self._total(array)

    def local_values(self, values: Sequence[object]) -> Any:
        """Make one argument of `strategy.run` from a value per replica of this worker."""
        if self.local_replicas == 1:
            return values[0]
        # The ids count the replicas of all workers, and `values` has only the ones of this worker.
        return self.strategy.experimental_distribute_values_from_function(
            lambda context: values[context.replica_id_in_sync_group % self.local_replicas]
        )

    def _choose(self, devices: Sequence[str] | None) -> Any:
        if self.ranks > 1:
            return strategy_named("MultiWorkerMirroredStrategy")()
        if devices:
            return tf.distribute.MirroredStrategy(list(devices))
        if len(tf.config.list_physical_devices("GPU")) > 1:
            return tf.distribute.MirroredStrategy()
        return tf.distribute.get_strategy()


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
    return getattr(tf.distribute, name, None) or getattr(tf.distribute.experimental, name)
