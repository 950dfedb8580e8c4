"""`two_tower.py` as the script of an operator: trains on the rows of a table, with the flags in the
user parameters.

The exported model has columns as inputs and outputs, so it can predict a table.
"""

import os

from click_flags import flags_from
from click_model import make_estimator
from two_tower import eval_spec, train_spec

from akdl.engine.estimator_group import is_chief, served_by_default
from akdl.engine.inputs import get_feature_placeholders
from akdl.estimator.group import train_and_evaluate
from akdl.tf_version import require_estimator

INPUTS = [
    {"name": "user_keyword", "dtype": "string", "shape": []},
    {"name": "user_gender", "dtype": "string", "shape": []},
    {"name": "user_age", "dtype": "float", "shape": []},
    {"name": "item_keyword", "dtype": "string", "shape": []},
    {"name": "item_price", "dtype": "float", "shape": []},
    {"name": "item_published", "dtype": "float", "shape": []},
]


def main(task_config):
    folder = task_config.work_dir  # contains the user files
    FLAGS = flags_from(
        dict(
            task_config.user_params,
            model_dir=os.path.join(folder, "model_dir"),
            keywords_file=os.path.join(folder, "keywords.txt"),
            keywords_weights_file=os.path.join(folder, "keywords.npy"),
            train_files=task_config.dataset_file,
            eval_files=task_config.dataset_file,
        )
    )
    estimator, feature_spec = make_estimator(FLAGS)
    train_and_evaluate(estimator, train_spec(FLAGS, feature_spec), eval_spec(FLAGS, feature_spec))
    if is_chief(estimator.config):
        export = require_estimator("the export").export
        receiver = export.build_raw_serving_input_receiver_fn(
            get_feature_placeholders(INPUTS, export_batch_dim=True)
        )
        served_by_default(estimator).export_saved_model(task_config.saved_model_dir, receiver)
