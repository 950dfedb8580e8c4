"""The four functions: their signatures, what input functions return, and the forms of a serving
receiver.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from akdl.estimator.four_functions import Functions
from akdl.user_code.module import UserModuleError
from tests.akdl.estimator.support import linear_module

pytestmark = pytest.mark.estimator

WARNINGS = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def test_all_mistakes_of_a_module_are_listed() -> None:
    module = SimpleNamespace(
        __file__="/a/user.py",
        model_fn=lambda features, labels, mode: None,
        train_input_fn=lambda path, params, size: None,
        eval_input_fn=lambda path, params, size=3: None,
    )
    with pytest.raises(UserModuleError) as caught:
        Functions(module, "", {})
    assert str(caught.value).splitlines() == [
        "user.py does not define the four functions of an Estimator:",
        "- model_fn(features, labels, mode): got an unexpected keyword argument 'params'",
        "- train_input_fn(path, params, size): missing a required argument: 'size'",
        "- serving_input_receiver_fn is missing",
        "expected are",
        "    def model_fn(features, labels, mode, params)",
        "    def train_input_fn(path, params)",
        "    def eval_input_fn(path, params)",
        "    def serving_input_receiver_fn()",
    ]


def input_function(found: Any, **how: bool) -> Any:
    module = linear_module(train_input_fn=lambda path, params: found)
    return Functions(module, "", {}).input_fn(
        "train_input_fn", **{"distributed": False, "own_rows": False, **how}
    )()


@pytest.mark.tf
def test_input_function_accepts_a_dataset() -> None:
    import tensorflow as tf

    for dataset in (tf.data.Dataset.range(3), tf.compat.v1.data.Dataset.range(3)):
        assert input_function(dataset, distributed=True) is dataset
    policy = (
        input_function(tf.data.Dataset.range(3), own_rows=True)
        .options()
        .experimental_distribute.auto_shard_policy
    )
    assert policy == tf.data.experimental.AutoShardPolicy.OFF


@pytest.mark.tf
def test_input_function_accepts_a_tuple_in_one_process_only() -> None:
    assert input_function(("features", "labels")) == ("features", "labels")
    with pytest.raises(
        UserModuleError,
        match="got a tuple; if several processes train it has to return a tf.data.Dataset",
    ):
        input_function(("features", "labels"), distributed=True)


@pytest.mark.tf
def test_input_function_refuses_other_results() -> None:
    for found, kind in ((None, "nothing"), ([1, 2], "a list"), ((1, 2, 3), "a tuple of 3")):
        with pytest.raises(UserModuleError, match=f"expected a tf.data.Dataset or .*, got {kind}"):
            input_function(found)


@pytest.mark.tf
def test_input_function_gets_a_copy_of_params_at_each_call() -> None:
    def spoil(path: str, params: dict[str, Any]) -> Any:
        params["list"].append(1)
        return params["list"], path

    functions = Functions(linear_module(train_input_fn=spoil), "data", {"list": []})
    for _ in range(2):
        assert functions.input_fn("train_input_fn", False, False)() == ([1], "data")


# The four things that serving_input_receiver_fn may return.
def receive(make: Any) -> Any:
    import tensorflow as tf

    with tf.Graph().as_default():
        return Functions(linear_module(serving_input_receiver_fn=make), "", {}).receive()


@pytest.mark.tf
@WARNINGS
def test_serving_input_receiver_gives_features_and_receiver_tensors() -> None:
    import tensorflow as tf

    def make() -> Any:
        x = tf.compat.v1.placeholder(tf.float32, [None])
        return tf.estimator.export.ServingInputReceiver({"x": x * 2}, {"half": x})

    found = receive(make)
    assert (list(found.features), list(found.receiver_tensors)) == (["x"], ["half"])


@pytest.mark.tf
@WARNINGS
def test_tensor_serving_input_receiver_gives_one_tensor_of_features() -> None:
    import tensorflow as tf

    def make() -> Any:
        x = tf.compat.v1.placeholder(tf.float32, [None])
        return tf.estimator.export.TensorServingInputReceiver(x * 2, {"half": x})

    assert receive(make).features.shape.as_list() == [None]


@pytest.mark.tf
@WARNINGS
def test_receiver_function_may_return_a_function() -> None:
    import tensorflow as tf

    export = tf.estimator.export
    spec = {"x": tf.io.FixedLenFeature([], tf.float32)}
    parsing = receive(lambda: export.build_parsing_serving_input_receiver_fn(spec))
    assert (list(parsing.features), parsing.receiver_tensors["examples"].dtype) == (
        ["x"],
        tf.string,
    )
    made = receive(export.build_parsing_serving_input_receiver_fn(spec))
    assert list(made.features) == ["x"]
    raw = receive(
        lambda: export.build_raw_serving_input_receiver_fn(
            {"x": tf.compat.v1.placeholder(tf.float32, [1, 28], name="x")}
        )
    )
    assert raw.receiver_tensors["x"].shape.as_list() == [None, 28]


@pytest.mark.tf
@WARNINGS
def test_receiver_function_refuses_other_results() -> None:
    with pytest.raises(
        UserModuleError,
        match="expected a ServingInputReceiver, a TensorServingInputReceiver, or .*, got a dict",
    ):
        receive(lambda: {"x": 1})
