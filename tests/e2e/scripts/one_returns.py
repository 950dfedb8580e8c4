"""full_batch_sgd.py, but worker 0 returns after a few steps, when the chief waits for it. Needs
that script as a user file.
"""

from __future__ import annotations

import sys
from typing import Any

import full_batch_sgd


def main(task_config: Any) -> None:
    def leave(number: Any) -> None:
        if number == 5 and task_config.task_type == "worker":
            sys.exit(0)

    task_config.user_params["steps"] = 10**9
    full_batch_sgd.main(task_config, leave)
