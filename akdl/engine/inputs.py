"""Rows to batches of (features, label), and the placeholders of an exported model.

Rows are parsed after batching, which is about twenty times faster than before it, since TensorFlow
parses a batch in one operation. No dataset is sharded, because each worker has its own share of the
rows already, and a strategy that shards would train on a part of the part.
"""

from __future__ import annotations

import functools
import logging
import re
from typing import Any, Callable, Mapping, Sequence, Tuple

import tensorflow as tf

from akdl.features import feature_spec, unsharded
from akdl.user_code.config_file import Config
from akdl.wire import TableColumns
from akdl.wire.column_type import Kind, type_of

dtype_str_map = {
    "byte": tf.int8,
    "ubyte": tf.uint8,
    "int": tf.int64,
    "long": tf.int64,
    "float": tf.float32,
    "double": tf.float32,
    "boolean": tf.bool,
    "string": tf.string,
}
"""Names of dtypes in example and placeholder configs; as in Alink, "int" is int64 and "double" is
float32.
"""

Specs = Mapping[str, Any]
"""Features of `tf.io`, by name."""

Parser = Callable[[Any], Tuple[Any, ...]]
ColumnsParser = Callable[[Mapping[str, Any]], Tuple[Any, ...]]

logger = logging.getLogger(__name__)
# An Estimator calls its input functions again and again, so each warning is logged once per
# process.
_warned: set[str] = set()

# A tf.train.Example holds values of these dtypes only; other dtypes are parsed as one of them and
# cast.
_IN_EXAMPLES = (tf.int64, tf.float32, tf.string)


def parse_feature_specs(example_config: Sequence[Config]) -> dict[str, Any]:
    """Return the features that an example config describes.

    Args:
        example_config: One mapping per feature: `name`, `dtype` (a key of `dtype_str_map`, or a
            dtype), `shape` (of one row) and `feature_type`: "FixedLenFeature" (default),
            "FixedLenSequenceFeature" or "VarLenFeature", or the class of this name in `tf.io`.

    Returns:
        Name to feature, the argument of `get_example_parser`.

    Raises:
        ValueError: A key is missing, or a dtype or feature type is unknown.
    """
    return {_required(entry, "name"): _feature(entry) for entry in example_config}


def get_example_parser(
    feature_specs: Specs, label_col: str, weight_col: str | None = None
) -> Parser:
    """Return a function from serialized rows to (features, label), or (features, label, weight).

    It takes a string tensor of shape [n], or [] for one row, and returns the features by name and
    the label, each of shape [n] + the feature's shape. A FixedLenSequenceFeature is padded to the
    longest row of the batch.

    Args:
        feature_specs: See `parse_feature_specs`; including the label.
        label_col: Name of the label.
        weight_col: Name of a feature with one number per row: its weight in the loss of Keras.
            float32, shape [n].

    Raises:
        ValueError: The label or the weight is not among the features.
    """
    _check_roles(feature_specs, label_col, weight_col)
    in_examples = {name: _in_example(spec) for name, spec in feature_specs.items()}

    def parse(serialized: Any) -> tuple[Any, ...]:
        parse_all = (
            tf.io.parse_single_example if serialized.shape.ndims == 0 else tf.io.parse_example
        )
        parsed = parse_all(serialized, in_examples)
        # The weight has the shape of the serialized rows: [n], or [] for a single row.
        return _split(parsed, feature_specs, label_col, weight_col, tf.shape(serialized))

    return parse


def get_columns_parser(
    feature_specs: Specs,
    label_col: str,
    weight_col: str | None,
    columns: TableColumns,
    exact_doubles: bool = False,
) -> ColumnsParser | None:
    """Return a function from batches of columns to features and label.

    The batches are from `tf_context.batches`, and the result is the one of `get_example_parser` for
    the same rows.

    Args:
        feature_specs: See `get_example_parser`, as for `label_col` and `weight_col`.
        columns: The columns of the table.
        exact_doubles: As in `task_config.tf_context.exact_doubles`.

    Returns:
        The function; None unless every feature is one column of the same type, a number, a string
        or a list.

    Raises:
        ValueError: See `get_example_parser`.
    """
    _check_roles(feature_specs, label_col, weight_col)
    # An exact DOUBLE is a string of bytes in rows, and a number in columns.
    types = feature_spec(
        [each for each in columns if not (exact_doubles and type_of(each).kind is Kind.DOUBLE)]
    )

    def is_column(name: str, spec: Any) -> bool:
        column = types.get(name)
        if column is None or column.dtype != _in_example(spec).dtype:
            return False
        is_list = isinstance(column, tf.io.VarLenFeature)
        if isinstance(spec, tf.io.VarLenFeature):
            return is_list
        return (
            isinstance(spec, tf.io.FixedLenFeature)
            # Only the parser fills in default values. A cell of a single value can become a shape
            # of ones, such as [1, 1], by a reshape.
            and spec.default_value is None
            and (is_list or set(spec.shape) <= {1})
        )

    if not all(is_column(name, spec) for name, spec in feature_specs.items()):
        return None

    def parse(cells: Mapping[str, Any]) -> tuple[Any, ...]:
        shaped = {name: _shaped(cells[name], name, spec) for name, spec in feature_specs.items()}
        return _split(shaped, feature_specs, label_col, weight_col, [-1])

    return parse


def get_feature_placeholders(
    placeholders_config: Sequence[Config], export_batch_dim: bool = False, **ignored: Any
) -> dict[str, Any]:
    """Return the placeholders for the inputs of a served model.

    They are the argument of `tf.estimator.export.build_raw_serving_input_receiver_fn`; their first
    dimension is the batch.

    Args:
        placeholders_config: One mapping per input: `name`, `dtype` and `shape`, as in
            `parse_feature_specs`.
        export_batch_dim: Add a batch dimension of any size before `shape`. By default the first
            dimension of `shape` is the batch.
        ignored: Other keys, so that a whole export config can be passed; a warning lists them.

    Raises:
        ValueError: A key is missing, or a dtype is unknown.
    """
    _warn_of(ignored, "get_feature_placeholders")
    # Eager execution has no placeholders. With a graph of their own, a script of TensorFlow 2 can
    # stay eager.
    graph = tf.Graph() if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    with graph.as_default():
        return {
            name: tf.compat.v1.placeholder(
                _dtype(entry),
                ([None] if export_batch_dim else []) + list(_required(entry, "shape")),
                # Names of columns may have characters that TensorFlow does not allow in names of
                # operations. The keys keep the columns' names, and an export uses the keys.
                re.sub(r"^[^A-Za-z0-9.]", "x", re.sub(r"[^A-Za-z0-9_.\-/]", "_", name)),
            )
            for entry in placeholders_config
            for name in [_required(entry, "name")]
        }


def get_dataset(
    feature_specs: Specs | None,
    raw_dataset_fn: Callable[[], Any],
    label_col: str | None,
    batch_size: int,
    num_epochs: int | None,
    num_parallel_calls: int = 8,
    shuffle_factor: int = 10,
    prefetch_buffer_size: int | None = None,
    post_process_dataset: Callable[[Any], Any] | None = None,
    example_parser: Parser | None = None,
    weight_col: str | None = None,
    seed: int | None = None,
    **ignored: Any,
) -> Any:
    """Return a `tf.data.Dataset` of (features, label) batches; the last one may be smaller.

    Args:
        feature_specs: See `parse_feature_specs`.
        raw_dataset_fn: Returns a dataset of serialized rows.
        label_col: Name of the label.
        batch_size: Rows in a batch.
        num_epochs: Passes over the rows; None to repeat them indefinitely.
        num_parallel_calls: Batches that are parsed at the same time.
        shuffle_factor: Rows are shuffled within a buffer of this many batches; 0 keeps their order.
        prefetch_buffer_size: Batches that are prepared in advance; None for no buffer.
        post_process_dataset: Function from a dataset of single parsed rows, (features, label), to
            another dataset. It makes the input slower, as rows pass through it one by one.
        example_parser: Function from serialized rows, shape [n], to (features, label); replaces
            `feature_specs` and `label_col`.
        weight_col: See `get_example_parser`; batches are (features, label, weight) then.
        seed: Fixes the order of shuffled rows; None for a new order each time.
        ignored: Other keys, so that a whole train config can be passed; a warning lists them.

    Raises:
        ValueError: See `get_example_parser`.
    """
    _warn_of(ignored, "get_dataset")
    parse = example_parser
    if parse is None:
        if feature_specs is None or label_col is None:
            raise ValueError(
                "get_dataset: expected feature_specs and label_col, or an example_parser"
            )
        parse = get_example_parser(feature_specs, label_col, weight_col)
    dataset = raw_dataset_fn()
    # The user's function takes single rows. They are still parsed as batches, and cut into rows
    # again, since this is faster than to parse them one by one.
    if post_process_dataset is not None:
        parsed = dataset.batch(batch_size).map(parse, num_parallel_calls=num_parallel_calls)
        dataset = post_process_dataset(parsed.unbatch())
    # The shuffled rows are still serialized, so the buffer holds strings and no parsed tensors.
    # After `post_process_dataset` they are parsed.
    if shuffle_factor:
        dataset = dataset.shuffle(batch_size * shuffle_factor, seed)
    # `repeat` comes before `batch`, so that a batch may reach into the next pass: only the last
    # batch of all passes is smaller.
    dataset = dataset.repeat(num_epochs).batch(batch_size)
    if post_process_dataset is None:
        dataset = dataset.map(parse, num_parallel_calls=num_parallel_calls)
    return unsharded(
        dataset if prefetch_buffer_size is None else dataset.prefetch(prefetch_buffer_size)
    )


def get_dataset_fn(**dataset_args: Any) -> Callable[[], Any]:
    """Return `get_dataset` with its arguments: the `input_fn` of an Estimator."""
    return functools.partial(get_dataset, **dataset_args)


def _warn_of(ignored: Mapping[str, Any], function: str) -> None:
    """Log, once, the keys that a function does not read: one of them may be misspelled."""
    message = f"{function} does not read the keys {', '.join(sorted(ignored))}"
    # An Estimator makes its input again for each training and evaluation.
    if ignored and message not in _warned:
        _warned.add(message)
        logger.warning("%s", message)


def _check_roles(feature_specs: Specs, label_col: str, weight_col: str | None) -> None:
    for what, name in (("label", label_col), ("weight", weight_col)):
        if name is not None and name not in feature_specs:
            raise ValueError(
                f"the {what} {name!r} is not among the features {', '.join(feature_specs)}: add it"
                " to them"
            )


def _split(
    tensors: Mapping[str, Any],
    feature_specs: Specs,
    label_col: str,
    weight_col: str | None,
    shape: Any,
) -> tuple[Any, ...]:
    """Return (features, label) or (features, label, weight) from the tensors of rows.

    `shape` is the shape of the weight.
    """
    features = {
        name: (
            tensor
            if tensor.dtype == feature_specs[name].dtype
            else tf.cast(tensor, feature_specs[name].dtype)
        )
        for name, tensor in tensors.items()
    }
    label = features.pop(label_col)
    if weight_col is None:
        return features, label
    return features, label, tf.reshape(tf.cast(features.pop(weight_col), tf.float32), shape)


def _shaped(cells: Any, name: str, spec: Any) -> Any:
    """Return the cells of a column as a tensor of the feature's shape, as parsing an Example would.

    A list column arrives as a SparseTensor. The comparison of sizes is an operation of the graph,
    because lengths are known only while the rows are read; its message names the feature.
    """
    # The parser of rows gives a VarLenFeature as a SparseTensor too.
    if isinstance(spec, tf.io.VarLenFeature):
        return cells
    if not isinstance(cells, tf.SparseTensor):
        return tf.reshape(cells, [-1, *spec.shape])
    size = 1
    for each in spec.shape:
        size *= each
    message = (
        f"the feature {name!r} of shape {list(spec.shape)} takes {size} values of each row, the"
        " longest row has"
    )
    fits = tf.debugging.assert_equal(
        cells.dense_shape[1], tf.constant(size, tf.int64), message=message
    )
    with tf.control_dependencies([fits]):
        # The comparison above sees the longest row only. A shorter row leaves too few values, and
        # this reshape fails.
        dense = tf.reshape(
            cells.values, tf.concat([cells.dense_shape[:1], tf.constant(spec.shape, tf.int64)], 0)
        )
    dense.set_shape([None, *spec.shape])
    return dense


def _feature(entry: Config) -> Any:
    dtype, kind = _dtype(entry), entry.get("feature_type", "FixedLenFeature")
    kind = getattr(kind, "__name__", kind)
    if kind == "VarLenFeature":
        return tf.io.VarLenFeature(dtype)
    shape = list(_required(entry, "shape"))
    if kind == "FixedLenFeature":
        return tf.io.FixedLenFeature(shape, dtype)
    if kind == "FixedLenSequenceFeature":
        # TensorFlow parses this feature from an Example only with `allow_missing`.
        return tf.io.FixedLenSequenceFeature(shape, dtype, allow_missing=True)
    raise ValueError(
        f"feature {entry['name']!r}: unknown feature_type {kind!r}, expected one of"
        " FixedLenFeature, FixedLenSequenceFeature, VarLenFeature"
    )


def _dtype(entry: Config) -> Any:
    name = _required(entry, "dtype")
    # The names of Alink come first, because "double" is float64 for TensorFlow.
    if name in dtype_str_map:
        return dtype_str_map[name]
    try:
        return tf.as_dtype(name)
    except TypeError as error:
        raise ValueError(
            f"feature {entry['name']!r}: unknown dtype {name!r}, expected one of"
            f" {', '.join(dtype_str_map)}"
        ) from error


def _required(entry: Config, key: str) -> Any:
    if key not in entry:
        raise ValueError(
            f"a feature needs the keys name, dtype and shape, got {dict(entry)}: add {key!r}"
        )
    return entry[key]


def _in_example(spec: Any) -> Any:
    """Return the feature with a dtype that an Example can hold."""
    if spec.dtype in _IN_EXAMPLES:
        return spec
    return spec._replace(dtype=tf.float32 if spec.dtype.is_floating else tf.int64)
