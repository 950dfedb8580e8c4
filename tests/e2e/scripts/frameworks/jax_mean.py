"""The perceptron of torch_ddp.py in JAX; gradients are averaged over the processes of the group."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils


def main(task_config: Any) -> None:
    address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    jax.distributed.initialize(address, int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
    assert jax.process_count() == task_config.num_workers
    random = np.random.RandomState(5)
    weights = [
        random.randn(2, 8).astype("f"),
        np.zeros(8, "f"),
        random.randn(8, 1).astype("f"),
        np.zeros(1, "f"),
    ]

    def loss(weights: Any, x: Any, y: Any) -> Any:
        hidden = jax.nn.sigmoid(x @ weights[0] + weights[1])
        logits = hidden @ weights[2] + weights[3]
        return jnp.mean(jnp.logaddexp(0.0, logits) - y * logits)

    gradient = jax.jit(jax.grad(loss))
    (rows,) = task_config.context.arrays(1_000_000)
    x, y = rows["x"].values.reshape(-1, 2), rows["y"][:, None]
    for step in range(task_config.user_params["steps"]):
        if step and jax.process_index() == task_config.user_params.get("fails"):
            raise ValueError("planted")
        of_all = multihost_utils.process_allgather(gradient(weights, x, y))
        axes = (0,) if task_config.num_workers > 1 else ()
        weights = [
            weight - 0.5 * each.mean(axes) for weight, each in zip(weights, map(np.asarray, of_all))
        ]
    if task_config.task_type == "chief":
        os.makedirs(task_config.saved_model_dir)
        np.concatenate([np.ravel(each) for each in weights]).tofile(
            os.path.join(task_config.saved_model_dir, "weights")
        )
    jax.distributed.shutdown()
