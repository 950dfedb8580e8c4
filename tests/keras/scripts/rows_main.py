"""A main script that trains the callbacks of `rows.py` and writes the model as rows `model_id BIGINT, model_info STRING`."""

import os

from akdl.keras import operator
from akdl.user_code.module import load_module


def main(task_config):
    operator.main(task_config, load_module(os.path.join(os.path.dirname(__file__), "rows.py")))
