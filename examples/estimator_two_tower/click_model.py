"""Estimator for `two_tower.py`: columns of users and items, two towers of Keras layers, and
a head.
"""

import datetime

import numpy as np
import tensorflow as tf
from towers import TwoTowerModel

from akdl.engine.run_config import generate_run_config
from akdl.estimator.common_estimator import CommonEstimator
from akdl.estimator.head import UserDefineHead

SAVE_CHECKPOINTS_STEPS = 100


def get_column_features(keywords_file, keywords_weights_file, eval_date):
    """Return the user columns and the item columns.

    Args:
        keywords_file: One keyword per line.
        keywords_weights_file: Numpy file with the initial vector of each keyword; None for random
            vectors.
        eval_date: Day on which the age of an item is computed.
    """
    column = tf.feature_column
    size, initializer = 4, None
    if keywords_weights_file:
        weights = np.load(keywords_weights_file)
        size, initializer = weights.shape[1], tf.compat.v1.constant_initializer(weights)
    today = (eval_date.date() - datetime.date(1970, 1, 1)).days

    def keyword(key):
        words = column.categorical_column_with_vocabulary_file(key, keywords_file)
        return column.embedding_column(words, size, initializer=initializer)

    gender = column.indicator_column(
        column.categorical_column_with_vocabulary_list("user_gender", ["f", "m"])
    )
    age = column.numeric_column("user_age", normalizer_fn=lambda years: (years - 40) / 20)
    price = column.numeric_column("item_price", normalizer_fn=tf.math.log)
    published = column.numeric_column(
        "item_published", normalizer_fn=lambda day: (today - day) / 365
    )
    return [keyword("user_keyword"), gender, age], [keyword("item_keyword"), price, published]


def make_estimator(FLAGS, eval_date=None):
    """Return the Estimator, and the features of a request as a dict from name to tf.io feature."""
    user_column_features, item_column_features = get_column_features(
        keywords_file=FLAGS.keywords_file,
        keywords_weights_file=FLAGS.keywords_weights_file,
        eval_date=eval_date or datetime.datetime.now(),
    )
    model = TwoTowerModel(
        user_column_features=user_column_features,
        item_column_features=item_column_features,
        user_hidden_units=list(map(int, FLAGS.user_hidden_units.split(","))),
        item_hidden_units=list(map(int, FLAGS.item_hidden_units.split(","))),
        user_activation=tf.nn.selu,  # AlphaDropout needs it
        item_activation=tf.nn.selu,
        user_dropout=FLAGS.user_dropout,
        item_dropout=FLAGS.item_dropout,
        user_batch_norm=FLAGS.user_batch_norm,
        item_batch_norm=FLAGS.item_batch_norm,
    )
    estimator = CommonEstimator(
        model=model,
        head=UserDefineHead("classification"),
        optimizer=tf.keras.optimizers.Adam(learning_rate=FLAGS.learning_rate),
        config=generate_run_config(
            model_dir=FLAGS.model_dir,
            save_checkpoints_steps=SAVE_CHECKPOINTS_STEPS,
            log_step_count_steps=100,
            keep_checkpoint_max=5,
        ),
    )
    return estimator, tf.feature_column.make_parse_example_spec(
        user_column_features + item_column_features
    )
