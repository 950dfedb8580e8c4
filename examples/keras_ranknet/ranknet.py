"""Callbacks of `akdl keras` for a RankNet, which is trained on pairs of documents and served as the
ranker inside it.

README.md lists the repairs to the example that it follows.
"""

import tensorflow as tf
from ranknet_model import RankNetModel


def awf_create_model_fn(name, input_size):
    return RankNetModel(name, input_size)


def _create_paired_dataset(file, feat_num, filt_num, batch_size):
    def parse(line):
        document = [["0"], ["0"], [0.0]] + [[0.0]] * feat_num
        parsed = tf.io.decode_csv(line, document + document + [[0.0]], field_delim=" ")
        second = 3 + feat_num
        ids_1 = tf.stack(parsed[:2], axis=1)
        features_1 = tf.stack(parsed[3 : 3 + feat_num - filt_num], axis=1)
        ids_2 = tf.stack(parsed[second : second + 2], axis=1)
        features_2 = tf.stack(parsed[second + 3 : second + 3 + feat_num - filt_num], axis=1)
        label = tf.expand_dims(parsed[-1], axis=1)
        weights = tf.expand_dims((parsed[2] - parsed[second + 2]) * parsed[-1], axis=1)
        return (ids_1, ids_2, features_1, features_2), (label + 1) / 2, weights

    return tf.data.TextLineDataset(file.strip()).skip(1).batch(batch_size, True).map(parse)


def _create_single_dataset(file, feat_num, filt_num, batch_size, like_listen=False):
    document = [["0"], ["0"], [0]] + [[0.0]] * feat_num

    def parse(line):
        parsed = tf.io.decode_csv(line, document, field_delim=" ")
        ids = tf.expand_dims(parsed[0], axis=1)
        label = tf.expand_dims(parsed[2], axis=1)
        features = tf.stack(parsed[3 : 3 + feat_num - filt_num], axis=1)
        if like_listen:
            label = label - tf.cast(label > 0, tf.int32)
        else:
            label = label - tf.cast(label == 2, tf.int32)
            label = label + tf.cast(label == -1, tf.int32)
        return (ids, features), label

    def is_positive(line):
        return int(tf.io.decode_csv(line, document, field_delim=" ")[2]) > 0

    lines = tf.data.TextLineDataset(file.strip()).skip(1)
    if like_listen:
        return lines.filter(is_positive).batch(batch_size).map(parse)
    return lines.batch(batch_size, True).map(parse)


def awf_create_train_dataset_fn(file, feat_num, filt_num, batch_size):
    return _create_paired_dataset(file, feat_num, filt_num, batch_size)


def awf_create_test_dataset_fn(file, feat_num, filt_num, batch_size):
    return _create_paired_dataset(file, feat_num, filt_num, batch_size)


def awf_create_val_dataset_fn(file, feat_num, filt_num, batch_size):
    return (
        _create_single_dataset(file, feat_num, filt_num, batch_size, False),
        _create_single_dataset(file, feat_num, filt_num, batch_size, True),
    )


def awf_model_to_save_fn(trained_model: RankNetModel):
    return trained_model.ranker


def awf_load_model_fn(path, name):
    return RankNetModel(name, None, tf.keras.models.load_model(path, compile=False))
