"""The distribution strategy for this process's role in TF_CONFIG.

It is for Keras models and for your own training loops.

Needs TensorFlow 2. Estimators get their strategy from `akdl.engine.run_config`.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from typing import Any

import tensorflow as tf

from akdl.runner.config import TaskConfig
from akdl.tf_version import NO_GROUP_OF_KERAS_3, is_keras_3, tf_version
from akdl.training.workers import is_parameter_server_strategy, strategy_named, sum_over_workers

logger = logging.getLogger(__name__)


def choose_strategy(task_config: TaskConfig) -> Any:
    """Return the `tf.distribute.Strategy` for this process.

    Call it before any other use of TensorFlow.

    - A process alone, or an evaluator, which is never part of the cluster: the default strategy.
    - Several workers without parameter servers: `MultiWorkerMirroredStrategy`. All workers,
      including the chief, train in step; each has its own share of the rows. The batch size for
      Keras is the size of a step of the whole group.
    - Parameter servers: `ParameterServerStrategy` on the chief, which hands out the work. In the
      other processes this call starts a server and never returns; they are stopped when the chief
      has ended. Set the operator's `chiefCoordinates`, as the chief trains on no rows.

    Raises:
        ValueError: There are parameter servers, but no workers besides the chief.
        RuntimeError: This TensorFlow is older than the strategy.
    """
    cluster = task_config.cluster
    # A process alone needs no strategy, and an evaluator trains on no rows of the group.
    if task_config.task_type not in cluster or sum(map(len, cluster.values())) == 1:
        return tf.distribute.get_strategy()
    if not cluster.get("ps"):
        _require((2, 0), "MultiWorkerMirroredStrategy")
        return strategy_named("MultiWorkerMirroredStrategy")()
    if not cluster.get("worker"):
        roles = ", ".join(f"{len(addresses)} {role}" for role, addresses in cluster.items())
        raise ValueError(
            "ParameterServerStrategy needs a worker besides the chief, which only hands out work;"
            f" the cluster has {roles}: set numWorkers to 2 or more, or numPSs to 0"
        )
    _require((2, 4), "ParameterServerStrategy")
    # From TensorFlow's guide: calls to a process that has died fail, instead of waiting for it to
    # come back.
    os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if task_config.task_type != "chief":
        # This does not return: the script ends with the process, once the chief has ended.
        _serve(resolver, task_config.task_type, len(cluster["worker"]))
    return strategy_named("ParameterServerStrategy")(resolver)


def require_keras_for(strategy: Any) -> None:
    """Refuse Keras 3 under a strategy of several workers.

    The error of Keras itself is about types of tensors and does not name the reason.
    """
    if is_keras_3() and (
        is_parameter_server_strategy(strategy) or sum_over_workers(strategy) is not None
    ):
        raise ValueError(NO_GROUP_OF_KERAS_3)


def _serve(resolver: Any, role: str, num_workers: int) -> None:
    """Serve until this process is stopped; ends only by an error.

    The server runs in threads of TensorFlow. This thread waits for it, because the script must not
    continue: the chief alone executes the training, and sends parts of it here.
    """
    config = tf.compat.v1.ConfigProto()
    # With fewer threads, functions on a small machine wait for each other indefinitely.
    config.inter_op_parallelism_threads = max(multiprocessing.cpu_count(), num_workers + 1)
    if role == "ps":
        # A parameter server computes nothing. Otherwise it takes GPU memory from workers on the
        # same host.
        config.device_count["GPU"] = 0
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
        config=config,
    )
    logger.info("%s %d serves at %s", resolver.task_type, resolver.task_id, server.target)
    server.join()
    raise RuntimeError(
        f"the TensorFlow server of {resolver.task_type} {resolver.task_id} ended before it was"
        " stopped"
    )


def _require(version: Any, strategy: str) -> None:
    if tf_version() < version:
        wanted = ".".join(map(str, version))
        raise RuntimeError(
            f"{strategy} needs TensorFlow {wanted} or newer, found {tf.__version__}: choose an"
            " environment with pythonEnv"
        )
