"""Batches of (features, label) from TFRecord files of tf.train.Example."""

import tensorflow as tf


def input_fn(
    files,
    batch_size,
    features,
    num_epochs,
    shuffle_buffer_size=None,
    reader_num_threads=1,
    parser_num_threads=2,
    label_key="label",
    drop_final_batch=False,
):
    """Return a `tf.data.Dataset` of ({name: tensor of shape [n, ...]}, label); rows are parsed a
    batch at a time.

    Args:
        files: Paths or patterns of paths.
        batch_size: Rows in a batch.
        features: Feature name to `tf.io.FixedLenFeature` or another, the label among them.
        num_epochs: Passes over the files; None to repeat them indefinitely.
        shuffle_buffer_size: Rows are shuffled within a buffer of this size; None or 0 keeps their
            order.
        reader_num_threads: Files that are read at the same time.
        parser_num_threads: Batches that are parsed at the same time.
        label_key: Name of the label; None for a dataset of features alone.
        drop_final_batch: Drop the last batch if it is smaller.
    """
    return tf.data.experimental.make_batched_features_dataset(
        file_pattern=files,
        batch_size=batch_size,
        features=features,
        label_key=label_key,
        num_epochs=num_epochs,
        shuffle=bool(shuffle_buffer_size),
        shuffle_buffer_size=shuffle_buffer_size or 1,
        reader_num_threads=reader_num_threads,
        parser_num_threads=parser_num_threads,
        drop_final_batch=drop_final_batch,
    )
