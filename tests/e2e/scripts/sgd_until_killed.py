"""full_batch_sgd.py, but the first attempt goes on until it is killed. Needs that script as a user file.

User parameter `marker`: a file that the chief makes when the first attempt trains; later attempts find it and end.
"""

from __future__ import annotations

import os
from typing import Any

import full_batch_sgd


def main(task_config: Any) -> None:
    marker = task_config.user_params["marker"]
    if os.path.exists(marker):
        full_batch_sgd.main(task_config)
        return

    def tell(number: Any) -> None:
        if number == 5 and task_config.task_type == "chief":
            open(marker, "w").close()

    task_config.user_params["steps"] = 10**9
    full_batch_sgd.main(task_config, tell)
