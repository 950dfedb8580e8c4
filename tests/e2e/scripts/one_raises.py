"""full_batch_sgd.py, but worker 1 raises after a few steps, when the others wait for it. Needs that
script as a user file.
"""

from __future__ import annotations

import time
from typing import Any

import full_batch_sgd


def main(task_config: Any) -> None:
    def fail(number: Any) -> None:
        if number == 5 and (task_config.task_type, task_config.task_index) == ("worker", 1):
            raise ValueError(f"raised at {time.time()} by worker 1")

    task_config.user_params["steps"] = 10**9
    full_batch_sgd.main(task_config, fail)
