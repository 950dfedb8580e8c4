"""Batches of (features, label) from TFRecord files of tf.train.Example."""

from typing import Any, Mapping, Optional, Sequence

import tensorflow as tf

from akdl.features import unsharded


def input_fn(
    files: Sequence[str],
    batch_size: int,
    features: Mapping[str, Any],
    num_epochs: Optional[int],
    shuffle_buffer_size: Optional[int] = None,
    reader_num_threads: int = 1,
    parser_num_threads: int = 2,
    label_key: Optional[str] = "label",
    drop_final_batch: bool = False,
    own_rows: bool = False,
) -> Any:
    """Return a `tf.data.Dataset` of ({name: tensor of shape [n, ...]}, label); rows are parsed a batch at a time.

    Args:
        files: Paths or patterns of paths.
        batch_size: Rows in a batch.
        features: Feature name to `tf.io.FixedLenFeature` or another, the label among them.
        num_epochs: Passes over the files; None for no end.
        shuffle_buffer_size: Rows are shuffled within a buffer of this size; None or 0 keeps their order.
        reader_num_threads: Files that are read at the same time.
        parser_num_threads: Batches that are parsed at the same time.
        label_key: Name of the label; None for a dataset of features alone.
        drop_final_batch: Leave the last batch out when it is smaller.
        own_rows: Whether the files hold rows of this worker alone, so that no strategy may give it a part of them.

    Raises:
        ValueError: No files are given, or the label is not among the features.
    """
    if not files:
        raise ValueError("there are no files to read")
    if label_key is not None and label_key not in features:
        raise ValueError(f"the label {label_key!r} is not among the features: {', '.join(features)}")
    dataset = tf.data.experimental.make_batched_features_dataset(
        file_pattern=list(files),
        batch_size=batch_size,
        features=dict(features),
        label_key=label_key,
        num_epochs=num_epochs,
        shuffle=bool(shuffle_buffer_size),
        shuffle_buffer_size=shuffle_buffer_size or 1,
        reader_num_threads=reader_num_threads,
        parser_num_threads=parser_num_threads,
        drop_final_batch=drop_final_batch,
    )
    return unsharded(dataset) if own_rows else dataset
