"""SavedModels for tests, made once for a session of tests, and what they are called with."""

from __future__ import annotations

import functools
import json
import pathlib
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest

from akdl.serving.loaded_model import RowsError
from akdl.serving.model import ServedModel
from akdl.serving.saved_model import SavedModel
from akdl.tf_version import is_keras_3
from akdl.wire import Serving

NUMBERS = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]
# Kind and device behind the name of a model in a cell of `modelCol`.
SERVED = " kind=SavedModel device=CPU"
_PLACE = tempfile.gettempdir()  # a test may choose another for itself, which goes with it


class OutputColumn(NamedTuple):
    """A column of predictions; `key` is the name of the output, and without a type arrays are
    returned unconverted.
    """

    name: str
    type: str
    key: str | None = None


def serving_of(
    inputs: Iterable[str] | None = None,
    outputs: Iterable[str | OutputColumn] | None = None,
    utf8_columns: Iterable[str] = (),
    **settings: Any,
) -> Serving:
    """Settings for columns: names of inputs, or a mapping to inputs; names of outputs, or columns
    with types.
    """
    if isinstance(settings.get("defaults"), dict):
        settings["defaults"] = json.dumps(settings["defaults"])
    serving = Serving(**settings)
    for name in inputs or ():
        serving.input_columns.add(name=name, type="STRING" if name in utf8_columns else "")
    if isinstance(inputs, Mapping):
        serving.input_signature_defs.extend(inputs.values())
    columns = [
        OutputColumn(each, "", each) if isinstance(each, str) else each for each in outputs or ()
    ]
    for column in columns:
        serving.output_columns.add(name=column.name, type=column.type)
    if any(column.key for column in columns):
        serving.output_signature_defs.extend(column.key or column.name for column in columns)
    return serving


class StrictModel(ServedModel):
    """A model in use whose `predict` raises bad rows, as `LocalPredictor` does."""

    def predict(self, columns: Mapping[str, object], rows: int | None = None) -> dict[str, Any]:
        results, bad = self.predict_collecting(columns, rows)
        if bad:
            raise RowsError(bad)
        return results


def served(folder: str, *options: Any, **settings: Any) -> StrictModel:
    """The SavedModel in a folder, loaded; `settings` are those of `serving_of`, `options` the last
    ones of `ServedModel`.
    """
    serving = serving_of(**settings)
    return StrictModel(SavedModel(folder, serving), serving, *options)


@functools.lru_cache(None)
def folder() -> Any:
    """The folder of all models; it goes with this process."""
    return tempfile.TemporaryDirectory(prefix="models-", dir=_PLACE)


def rows(count: int, seed: int = 0) -> dict[str, Any]:
    """Two feature columns: x of 3 numbers, k an integer."""
    random = np.random.default_rng(seed)
    return {"x": random.normal(size=(count, 3)).astype("f4"), "k": random.integers(0, 5, count)}


def target(name: str) -> str:
    return str(pathlib.Path(folder().name, name))


def require_keras_2() -> None:
    if is_keras_3():
        pytest.skip(
            "Keras 3 exports models in another way, which tests/akdl/keras/test_newest.py tries"
        )


@functools.lru_cache(None)
def keras_functional() -> str:
    import tensorflow as tf

    require_keras_2()

    tf.keras.utils.set_random_seed(1)
    x, k = tf.keras.Input([3], name="x"), tf.keras.Input([], dtype=tf.int64, name="k")
    hidden = tf.keras.layers.Concatenate()([x, tf.keras.layers.Embedding(5, 4)(k)])
    both = [
        tf.keras.layers.Dense(2, name="logits")(hidden),
        tf.keras.layers.Dense(1, "sigmoid", name="p")(hidden),
    ]
    model = tf.keras.Model([x, k], {"logits": both[0], "p": both[1]})
    tf.saved_model.save(model, target("functional"))
    return target("functional")


@functools.lru_cache(None)
def keras_subclassed() -> str:
    import tensorflow as tf

    require_keras_2()

    class Subclassed(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = tf.keras.layers.Dense(2)

        def call(self, inputs: Any) -> Any:
            return {
                "logits": self.dense(inputs["x"]),
                "p": tf.cast(inputs["k"], tf.float32)[:, None] / 5,
            }

    tf.keras.utils.set_random_seed(2)
    model = Subclassed()
    model(dict(rows(2).items()))
    model.save(target("subclassed"), save_format="tf")
    return target("subclassed")


@functools.lru_cache(None)
def estimator() -> str:
    import tensorflow as tf

    columns = [
        tf.feature_column.numeric_column("x", [3]),
        tf.feature_column.embedding_column(
            tf.feature_column.categorical_column_with_identity("k", 5), 2
        ),
    ]
    config = tf.estimator.RunConfig(
        tf_random_seed=1, save_summary_steps=None, log_step_count_steps=None
    )
    made = tf.estimator.DNNClassifier([4], columns, target("estimator-work"), config=config)
    features = dict(rows(20).items())
    labels = np.arange(20) % 2
    made.train(lambda: tf.data.Dataset.from_tensor_slices((features, labels)).batch(10), steps=2)
    with tf.Graph().as_default():
        placeholders = {
            "x": tf.compat.v1.placeholder(tf.float32, [None, 3]),
            "k": tf.compat.v1.placeholder(tf.int64, [None]),
        }
        serving = tf.estimator.export.build_raw_serving_input_receiver_fn(placeholders)
    return made.export_saved_model(target("estimator"), serving).decode()


@functools.lru_cache(None)
def module() -> str:
    """A raw tf.Module with two signatures."""
    import tensorflow as tf

    class Linear(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable([[1.0, -1.0], [0.5, 2.0], [3.0, 0.25]])

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, 3], tf.float32, "x"),
                tf.TensorSpec([None], tf.int64, "k"),
            ]
        )
        def predict(self, x: Any, k: Any) -> Any:
            return {"logits": x @ self.w, "p": tf.cast(k, tf.float32)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "k")])
        def look_up(self, k: Any) -> Any:
            return {"found": tf.gather(tf.constant([10, 11, 12, 13, 14], tf.int64), k)}

    made = Linear()
    tf.saved_model.save(
        made, target("module"), {"serving_default": made.predict, "look_up": made.look_up}
    )
    return target("module")


@functools.lru_cache(None)
def endless(value: int) -> str:
    """As `scaled(2.0)`, but it does not end when this value is in k."""
    import tensorflow as tf

    def predict(x: Any, k: Any) -> Any:
        (turns,) = tf.while_loop(
            lambda turns: (turns < 1) | tf.reduce_any(k == value),
            lambda turns: (turns * 0 + 1,),
            (0,),
        )
        return {"p": tf.reduce_sum(x, 1) * 2.0 * tf.cast(turns, tf.float32)}

    made = tf.Module()
    made.f = tf.function(
        predict, [tf.TensorSpec([None, 3], tf.float32, "x"), tf.TensorSpec([None], tf.int64, "k")]
    )
    tf.saved_model.save(
        made, target(f"endless-{value}"), {"serving_default": made.f.get_concrete_function()}
    )
    return target(f"endless-{value}")


@functools.lru_cache(None)
def scaled(factor: float, width: int = 3, output: str = "p") -> str:
    """Sums the `width` numbers of x and multiplies with `factor`; k does nothing. Another `output`
    than p is not the only one.
    """
    import tensorflow as tf

    made = tf.Module()
    made.factor = tf.Variable(factor)
    specs = [tf.TensorSpec([None, width], tf.float32, "x"), tf.TensorSpec([None], tf.int64, "k")]
    more = {} if output == "p" else {"more": tf.constant(0.0)}
    made.f = tf.function(lambda x, k: {output: tf.reduce_sum(x, 1) * made.factor, **more}, specs)
    name = target(f"scaled-{factor}-{width}-{output}")
    tf.saved_model.save(made, name, {"serving_default": made.f.get_concrete_function()})
    return name


@functools.lru_cache(None)
def picky(value: int) -> str:
    """As `scaled(2.0)`, but it refuses a batch with this value in k."""
    import tensorflow as tf

    def predict(x: Any, k: Any) -> Any:
        tf.debugging.assert_none_equal(k, tf.constant(value, tf.int64))
        return {"p": tf.reduce_sum(x, 1) * 2.0}

    made = tf.Module()
    made.f = tf.function(
        predict, [tf.TensorSpec([None, 3], tf.float32, "x"), tf.TensorSpec([None], tf.int64, "k")]
    )
    tf.saved_model.save(
        made, target(f"picky-{value}"), {"serving_default": made.f.get_concrete_function()}
    )
    return target(f"picky-{value}")


@functools.lru_cache(None)
def identity(dtype: str, shape: tuple[int | None, ...]) -> str:
    """Returns its input `a` as `b`."""
    import tensorflow as tf

    made = tf.Module()
    made.f = tf.function(lambda a: {"b": tf.identity(a)}, [tf.TensorSpec(shape, dtype, "a")])
    name = target(f"identity-{dtype}-{len(shape)}-{abs(hash(shape))}")
    tf.saved_model.save(made, name, {"serving_default": made.f.get_concrete_function()})
    return name


@functools.lru_cache(None)
def greedy(most: int) -> str:
    """Returns its input `a` as `b`; a batch of more than `most` rows, or with a negative number,
    exhausts a staging area.

    A real allocation that fails takes TensorFlow 10 s, because it waits for memory to be freed.
    """
    import tensorflow as tf

    area = {"memory_limit": 4 * most, "shared_name": f"greedy-{most}"}

    def run(a: Any) -> Any:
        copies = 1 + most * tf.cast(tf.reduce_any(a < 0), tf.int32)
        with tf.control_dependencies([tf.raw_ops.Stage(values=[tf.tile(a, [copies])], **area)]):
            return {"b": tf.raw_ops.Unstage(dtypes=[tf.float32], **area)[0][: tf.shape(a)[0]]}

    made = tf.Module()
    made.f = tf.function(run, [tf.TensorSpec([None], "float32", "a")])
    tf.saved_model.save(
        made, target(f"greedy-{most}"), {"serving_default": made.f.get_concrete_function()}
    )
    return target(f"greedy-{most}")


@functools.lru_cache(None)
def compiled() -> str:
    """Returns twice its input `a` as `b`; XLA compiles it for each shape."""
    import tensorflow as tf

    made = tf.Module()
    made.f = tf.function(
        lambda a: {"b": 2 * a}, [tf.TensorSpec([None], "float32", "a")], jit_compile=True
    )
    tf.saved_model.save(
        made, target("compiled"), {"serving_default": made.f.get_concrete_function()}
    )
    return target("compiled")


@functools.lru_cache(None)
def total() -> str:
    """Sums each row of any length."""
    import tensorflow as tf

    made = tf.Module()
    made.f = tf.function(
        lambda a: {"sum": tf.reduce_sum(a, 1), "twice": 2 * a},
        [tf.TensorSpec([None, None], "float32", "a")],
    )
    tf.saved_model.save(made, target("total"), {"serving_default": made.f.get_concrete_function()})
    return target("total")


@functools.lru_cache(None)
def texts_and_numbers() -> str:
    import tensorflow as tf

    made = tf.Module()
    specs = [tf.TensorSpec([None], "string", "t"), tf.TensorSpec([None, 2], "float32", "x")]
    made.f = tf.function(
        lambda t, x: {"length": tf.strings.length(t), "sum": tf.reduce_sum(x, 1)}, specs
    )
    tf.saved_model.save(made, target("texts"), {"serving_default": made.f.get_concrete_function()})
    return target("texts")


def expected(
    folder: str, columns: dict[str, Any], signature: str = "serving_default"
) -> dict[str, Any]:
    import tensorflow as tf

    loaded = tf.saved_model.load(folder)
    function = loaded.signatures[signature]
    return {
        name: tensor.numpy()
        for name, tensor in function(**{k: tf.constant(v) for k, v in columns.items()}).items()
    }


ALL = [keras_functional, keras_subclassed, estimator, module]
