"""A main script that trains the callbacks of `rows.py` and writes the model as rows `model_id
BIGINT, model_info STRING`.
"""

from __future__ import annotations

import os
from typing import Any

from akdl.keras import operator
from akdl.user_code.module import load_module


def main(task_config: Any) -> None:
    operator.main(task_config, load_module(os.path.join(os.path.dirname(__file__), "rows.py")))
