"""A perceptron in PyTorch, with the workers of the group; each step takes all rows, whose order is
not fixed.
"""

import os
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main(task_config: Any) -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Sigmoid(), torch.nn.Linear(8, 1))
    if dist.get_world_size() > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    (rows,) = getattr(task_config.context, task_config.user_params.get("call", "arrays"))(1_000_000)
    x = torch.tensor(rows["x"].values).reshape(-1, 2)
    y = torch.tensor(rows["y"]).unsqueeze(1)
    for step in range(task_config.user_params["steps"]):
        if step and dist.get_rank() == task_config.user_params.get("fails"):
            raise ValueError("planted")
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(model(x), y).backward()
        optimizer.step()
    model = getattr(model, "module", model)
    if task_config.task_type == "chief":
        os.makedirs(task_config.saved_model_dir)
        torch.save(model.state_dict(), os.path.join(task_config.saved_model_dir, "model.pt"))
        weights = torch.cat([each.detach().reshape(-1) for each in model.parameters()])
        weights.numpy().tofile(os.path.join(task_config.saved_model_dir, "weights"))
    dist.destroy_process_group()
