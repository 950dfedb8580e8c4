"""The RunConfig of an Estimator: threads, checkpoints, and the strategy for TF_CONFIG."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Iterator, Mapping, Sequence

import tensorflow as tf

from akdl.process.ranks import read_cluster, read_task
from akdl.tf_version import is_tensorflow_2, require_estimator
from akdl.training.workers import in_step_workers


def generate_run_config(
    intra_op_parallelism_threads: int = 4,
    inter_op_parallelism_threads: int = 1,
    log_device_placement: bool = False,
    save_checkpoints_steps: int | None = 50,
    log_step_count_steps: int | None = 10,
    keep_checkpoint_max: int | None = 1,
    device_count: Mapping[str, int] | None = None,
    gpu_devices: str | Sequence[int | str] | None = None,
    save_checkpoints_secs: float | None = None,
    model_dir: str | None = None,
    **ignored: object,
) -> Any:
    """Return a `tf.estimator.RunConfig` for this process's place in TF_CONFIG.

    - With parameter servers: asynchronous training; the Estimator sees only the servers and itself.
    - Several workers without parameter servers: `MultiWorkerMirroredStrategy`. It needs graph mode,
      which this call switches on, so call it before any eager computation.
    - A chief alone, or no TF_CONFIG: plain training in one process.

    Args:
        intra_op_parallelism_threads: Threads of one operation.
        inter_op_parallelism_threads: Operations that run at the same time.
        log_device_placement: Log the device of each operation.
        save_checkpoints_steps: Steps between two checkpoints; None with `save_checkpoints_secs`, or
            for no checkpoints.
        log_step_count_steps: Steps between two lines of the log; None for no lines.
        keep_checkpoint_max: Checkpoints to keep; 0 or None for all.
        device_count: Device type to the number of devices to use, such as {"GPU": 0}.
        gpu_devices: The GPUs to use in this process alone: numbers, or "0,1". Sets
            CUDA_VISIBLE_DEVICES and removes TF_CONFIG from the environment; several are used with
            `MirroredStrategy`.
        save_checkpoints_secs: Seconds between two checkpoints; not together with
            `save_checkpoints_steps`, and not for workers in step: they write a checkpoint together,
            and their clocks do not agree on a step.
        model_dir: Folder of the checkpoints; None if the Estimator gets it.
        ignored: Other keys, so that a whole train config can be passed.

    Raises:
        ValueError: `save_checkpoints_secs` is set for workers in step.
        RuntimeError: This TensorFlow has no Estimator.
    """
    estimator = require_estimator("generate_run_config")
    strategy = None
    if gpu_devices is not None:
        given = gpu_devices.split(",") if isinstance(gpu_devices, str) else gpu_devices
        devices = [str(part).strip() for part in given]
        # The variables are set before the strategy is made, because TensorFlow reads them when it
        # first looks for GPUs. The numbers are in the order of the PCI bus, as nvidia-smi shows
        # them; CUDA's own order begins with the fastest GPU.
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
        # A choice of GPUs is for one process, which leaves the group.
        os.environ.pop("TF_CONFIG", None)
        if len(devices) > 1:
            strategy = tf.distribute.MirroredStrategy()
    cluster = read_cluster(os.environ)
    if in_step_workers(os.environ) and read_task(os.environ)[0] != "evaluator":
        if save_checkpoints_secs is not None:
            # TensorFlow would ignore the seconds and save every 1000 steps instead.
            raise ValueError(
                "workers in step save checkpoints by steps, got save_checkpoints_secs"
                f" {save_checkpoints_secs}: set save_checkpoints_steps instead"
            )
        if is_tensorflow_2():
            # In eager mode the strategy starts a server at once, and then the Estimator a second
            # one on the same port.
            tf.compat.v1.disable_v2_behavior()
        strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
    session_config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=intra_op_parallelism_threads,
        inter_op_parallelism_threads=inter_op_parallelism_threads,
        log_device_placement=log_device_placement,
        # This config replaces the Estimator's own default, which has soft placement: an operation
        # without a kernel for the GPU runs on the CPU.
        allow_soft_placement=True,
        device_count=device_count,
    )
    # Otherwise TensorFlow takes the memory of the whole GPU, and other processes of the host find
    # nothing left.
    session_config.gpu_options.allow_growth = True
    # An evaluator is not a part of the cluster, so a filter would name a job that it does not have.
    if "ps" in cluster and read_task(os.environ)[0] != "evaluator":
        # Without the filter a worker waits for all other workers, and hangs if one has ended
        # already.
        own = "/job:{}/task:{}".format(*read_task(os.environ))
        session_config.device_filters.extend(["/job:ps", own])
    # The Estimator would neither evaluate nor export where TF_CONFIG names a cluster, even a
    # cluster of one.
    with contextlib.nullcontext() if set(cluster) & {"ps", "worker"} else _without_tf_config():
        return estimator.RunConfig(
            train_distribute=strategy,
            session_config=session_config,
            model_dir=model_dir,
            save_checkpoints_steps=save_checkpoints_steps,
            save_checkpoints_secs=save_checkpoints_secs,
            log_step_count_steps=log_step_count_steps,
            keep_checkpoint_max=keep_checkpoint_max,
            # By default worker n sleeps 5 (n + 1) seconds before its first step, in the hope that
            # the chief has initialized the variables by then. `train_in_group` waits for the chief
            # instead.
            experimental_max_worker_delay_secs=0,
        )


@contextlib.contextmanager
def _without_tf_config() -> Iterator[None]:
    """Hide TF_CONFIG while a RunConfig is made, which reads it from the environment."""
    hidden = os.environ.pop("TF_CONFIG", None)
    try:
        yield
    finally:
        if hidden is not None:
            os.environ["TF_CONFIG"] = hidden
