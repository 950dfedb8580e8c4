"""A two-tower model for clicks, from a Keras model, a head, flags and exporters: train, evaluate, export, predict.

    python two_tower.py --model_dir out --train_files "data/train-*.tfrecord" --eval_files data/eval.tfrecord ...

`--help` shows all flags. In a group, the same command runs in every process, with TF_CONFIG.
"""

import datetime

import numpy as np
import tensorflow as tf

from akdl.engine.run_config import generate_run_config
from akdl.estimator.common_estimator import CommonEstimator
from akdl.estimator.exporters import model_best_exporter, model_final_exporter, model_latest_exporter
from akdl.estimator.flags import file_list, flags_of_command, int_list
from akdl.estimator.group import train_and_evaluate
from akdl.estimator.head import UserDefineHead
from akdl.estimator.tfrecord_input import input_fn
from akdl.estimator.two_tower import TwoTowerModel

LABEL = {"label": tf.io.FixedLenFeature([1], tf.int64)}
SAVE_CHECKPOINTS_STEPS = 100


def get_column_features(keywords_file, keywords_weights_file, eval_date):
    """Return the columns of the user and those of the item.

    Args:
        keywords_file: A keyword per line.
        keywords_weights_file: A numpy file with a vector per keyword, which training starts from; None for random ones.
        eval_date: The day from which the age of an item is counted.
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

    gender = column.indicator_column(column.categorical_column_with_vocabulary_list("user_gender", ["f", "m"]))
    age = column.numeric_column("user_age", normalizer_fn=lambda years: (years - 40) / 20)
    price = column.numeric_column("item_price", normalizer_fn=tf.math.log)
    published = column.numeric_column("item_published", normalizer_fn=lambda day: (today - day) / 365)
    return [keyword("user_keyword"), gender, age], [keyword("item_keyword"), price, published]


def make_estimator(FLAGS, eval_date=None):
    """Return the Estimator, and what a request to it holds: feature name to tf.io feature."""
    user_column_features, item_column_features = get_column_features(
        keywords_file=FLAGS.keywords_file,
        keywords_weights_file=FLAGS.keywords_weights_file,
        eval_date=eval_date or datetime.datetime.now(),
    )
    model = TwoTowerModel(
        user_column_features=user_column_features,
        item_column_features=item_column_features,
        user_hidden_units=int_list(FLAGS.user_hidden_units),
        item_hidden_units=int_list(FLAGS.item_hidden_units),
        user_activation=tf.nn.selu,  # which AlphaDropout is made for
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
    return estimator, tf.feature_column.make_parse_example_spec(user_column_features + item_column_features)


def train_spec(FLAGS, feature_spec):
    return tf.estimator.TrainSpec(
        input_fn=lambda: input_fn(
            files=file_list("train_files", FLAGS.train_files),
            batch_size=FLAGS.train_batch_size,
            features=dict(feature_spec, **LABEL),
            num_epochs=FLAGS.train_num_epochs,
            shuffle_buffer_size=FLAGS.train_shuffle_buffer_size,
            reader_num_threads=FLAGS.train_reader_num_threads,
            parser_num_threads=FLAGS.train_parser_num_threads,
            drop_final_batch=True,
        ),
        max_steps=FLAGS.max_train_steps or None,
    )


def eval_spec(FLAGS, feature_spec):
    return tf.estimator.EvalSpec(
        input_fn=lambda: input_fn(
            files=file_list("eval_files", FLAGS.eval_files),
            batch_size=FLAGS.eval_batch_size,
            features=dict(feature_spec, **LABEL),
            num_epochs=1,
            reader_num_threads=FLAGS.eval_reader_num_threads,
            parser_num_threads=FLAGS.eval_parser_num_threads,
        ),
        steps=FLAGS.max_eval_steps,
        name="eval",
        exporters=[
            model_best_exporter(FLAGS.model_name + "1", feature_spec),
            model_final_exporter(FLAGS.model_name + "2", feature_spec),
            model_latest_exporter(FLAGS.model_name + "3", feature_spec),
        ],
        start_delay_secs=FLAGS.start_delay_secs,
        throttle_secs=FLAGS.throttle_secs,
    )


def predict(estimator, FLAGS, feature_spec):
    """Yield the predictions batch by batch: each a dict of arrays."""
    return estimator.predict(
        input_fn=lambda: input_fn(
            files=file_list("predict_files", FLAGS.predict_files),
            batch_size=FLAGS.predict_batch_size,
            features=feature_spec,
            num_epochs=1,
            reader_num_threads=FLAGS.predict_reader_num_threads,
            parser_num_threads=FLAGS.predict_parser_num_threads,
            label_key=None,
        ),
        yield_single_examples=False,
    )


def run(FLAGS):
    """Train, evaluate, export and predict; return the last evaluation, None in processes that do not evaluate."""
    estimator, feature_spec = make_estimator(FLAGS)
    metrics = train_and_evaluate(estimator, train_spec(FLAGS, feature_spec), eval_spec(FLAGS, feature_spec))
    if metrics is None:
        return None
    print("evaluation at step {global_step}: auc {auc:.4f}, loss {loss:.4f}".format(**metrics))
    if FLAGS.predict_files:
        for number, batch in enumerate(predict(estimator, FLAGS, feature_spec)):
            if number == 3:
                break
            print("predicted:", np.round(batch["logistic"][:, 0], 3))
    return metrics


if __name__ == "__main__":
    run(flags_of_command("Trains a two-tower model for clicks, evaluates, exports and predicts."))
