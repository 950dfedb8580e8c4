"""The group that trains one model in step: this process's place in it, its strategy, and sums over all of its workers."""

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np
import tensorflow as tf

from akdl.engine.strategy import worker_sums


class Group:
    """The workers of TF_CONFIG, or this process alone. Make it before anything else is done with TensorFlow.

    Several workers train under `MultiWorkerMirroredStrategy`, a process alone under `MirroredStrategy` when it has several
    GPUs. A replica is a device that holds a copy of the model.

    Args:
        devices: Devices of this machine to train on, such as "GPU:0", in a process alone; None for all GPUs.

    Attributes:
        rank: Number of this worker; 0 is the chief, which writes checkpoints and models.
        replicas: Number of replicas of all workers.

    Raises:
        ValueError: The cluster has roles besides chief and worker, or several workers are to have chosen devices.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ, devices: Optional[Sequence[str]] = None) -> None:
        tf_config = json.loads(environment.get("TF_CONFIG") or "{}")
        cluster: Dict[str, List[str]] = {role: hosts for role, hosts in tf_config.get("cluster", {}).items() if hosts}
        others = sorted(set(cluster) - {"chief", "worker", "master"})
        if others:
            raise ValueError(
                f"TF_CONFIG has {', '.join(others)}: the Keras runner trains with workers in step, without parameter servers "
                "and evaluators; set numPSs to 0"
            )
        members = [(role, index) for role in ("chief", "master", "worker") for index in range(len(cluster.get(role, [])))]
        task = tf_config.get("task", {})
        self.ranks = max(1, len(members))
        own = (task.get("type"), int(task.get("index", 0)))
        if self.ranks > 1 and own not in members:
            raise ValueError("TF_CONFIG says that this process is {} {}, which is not in its cluster".format(*own))
        self.rank = members.index(own) if self.ranks > 1 else 0
        if self.ranks > 1 and devices:
            raise ValueError("devices can be chosen only without a group; for workers of a group set CUDA_VISIBLE_DEVICES")
        self.strategy = self._choose(devices)
        self.replicas = int(self.strategy.num_replicas_in_sync)
        self.local_replicas = self.replicas // self.ranks
        self._total = worker_sums(self.strategy)

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes what the group makes."""
        return self.rank == 0

    def sum(self, values: Any) -> Any:
        """Return the sum of an array over all workers, as float64; all of them have to call this."""
        array = np.asarray(values, np.float64)
        if self.ranks == 1 or not array.size:  # a sum of no numbers kills the process
            return array
        return self._total(array)

    def local_values(self, values: Sequence[Any]) -> Any:
        """Return one value per replica of this worker in the form that `strategy.run` takes."""
        if self.local_replicas == 1:
            return values[0]
        return self.strategy.experimental_distribute_values_from_function(
            lambda context: values[context.replica_id_in_sync_group % self.local_replicas]
        )

    def _choose(self, devices: Optional[Sequence[str]]) -> Any:
        if self.ranks > 1:
            kind = getattr(tf.distribute, "MultiWorkerMirroredStrategy", None)
            return (kind or tf.distribute.experimental.MultiWorkerMirroredStrategy)()
        if devices:
            return tf.distribute.MirroredStrategy(list(devices))
        if len(tf.config.list_physical_devices("GPU")) > 1:
            return tf.distribute.MirroredStrategy()
        return tf.distribute.get_strategy()
