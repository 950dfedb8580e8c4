r"""Two-tower model for clicks, with a Keras model, a head, flags and exporters: train, evaluate,
export, predict.

    python two_tower.py --model_dir out --train_files "data/train-*.tfrecord" \
        --eval_files data/eval.tfrecord ...

`--help` shows all flags. For a group, run the same command in every process with TF_CONFIG.
"""

import numpy as np
import tensorflow as tf
from click_flags import file_list, flags_of_command
from click_input import input_fn
from click_model import make_estimator

from akdl.estimator.exporters import (
    model_best_exporter,
    model_final_exporter,
    model_latest_exporter,
)
from akdl.estimator.group import train_and_evaluate

LABEL = {"label": tf.io.FixedLenFeature([1], tf.int64)}


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
    """Yield the predictions of each batch as a dict of arrays."""
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
    """Train, evaluate, export and predict; return the last evaluation, or None in processes that do
    not evaluate.
    """
    estimator, feature_spec = make_estimator(FLAGS)
    metrics = train_and_evaluate(
        estimator, train_spec(FLAGS, feature_spec), eval_spec(FLAGS, feature_spec)
    )
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
