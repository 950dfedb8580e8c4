"""Optimizers, losses and metrics by name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.akdl.keras.support import user_module

pytestmark = [pytest.mark.tf, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.mark.parametrize("name", ["Adam", "adam", "ADAM"])
def test_names_of_optimizers_ignore_case(name: str) -> None:
    from akdl.training.objects import make_optimizer

    assert type(make_optimizer(name, user_module())).__name__ == "Adam"


@pytest.mark.parametrize("name", ["mse", "MSE", "mean_squared_error", "MeanSquaredError"])
def test_names_of_losses_may_be_short_or_full(name: str) -> None:
    from akdl.training.objects import make_loss

    loss = make_loss(name, user_module())
    assert loss([[1.0], [3.0]], [[0.0], [0.0]]).numpy().tolist() == [1.0, 9.0]


def test_learning_rate_schedule_cannot_be_set_to_a_number() -> None:
    from akdl.training.objects import learning_rate, make_optimizer, set_learning_rate

    rate = {
        "name": "ExponentialDecay",
        "args": {"initial_learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.5},
    }
    optimizer = make_optimizer({"name": "SGD", "args": {"learning_rate": rate}}, user_module())
    assert learning_rate(optimizer) is None
    with pytest.raises(ValueError, match="the optimizer's learning_rate is a schedule"):
        set_learning_rate(optimizer, 0.1)


def test_learning_rate_can_be_read_and_set() -> None:
    from akdl.training.objects import learning_rate, make_optimizer, set_learning_rate

    optimizer = make_optimizer({"name": "SGD", "args": {"learning_rate": 0.25}}, user_module())
    assert learning_rate(optimizer) == 0.25
    set_learning_rate(optimizer, 0.5)
    assert learning_rate(optimizer) == 0.5


def test_functions_of_the_user_shadow_losses_and_metrics_of_keras() -> None:
    from akdl.training.objects import make_loss, make_metric

    def mse(y_true: Any, y_pred: Any, factor: float = 1.0) -> Any:
        return factor * (y_pred[:, 0] - y_true[:, 0])

    user = user_module(mse=mse)
    assert make_loss({"name": "mse", "args": {"factor": 2.0}}, user)(
        *_columns([1.0], [4.0])
    ).numpy().tolist() == [6.0]
    metric = make_metric({"name": "mse", "args": {"name": "difference"}}, user)
    metric.update_state(*_columns([1.0, 1.0], [4.0, 2.0]))
    assert (metric.name, float(metric.result())) == ("difference", 2.0)


def test_unknown_names_and_arguments_are_refused() -> None:
    from akdl.training.objects import make_metric, make_optimizer

    with pytest.raises(ValueError, match="there is no optimizer 'adm', neither .*; similar: Adam"):
        make_optimizer("adm", user_module())
    with pytest.raises(ValueError, match="metric AUC: .*'rows'"):
        make_metric({"name": "AUC", "args": {"rows": 3}}, user_module())


@pytest.mark.parametrize(
    ("name", "shown"), [("AUC", "auc"), ("BinaryAccuracy", "binary_accuracy"), ("acc", "acc")]
)
def test_metrics_have_the_names_of_keras_or_their_own(name: str, shown: str) -> None:
    from akdl.training.objects import metric_name

    assert metric_name(name) == shown
    assert metric_name({"name": name, "args": {"name": "mine"}}) == "mine"


def test_unknown_names_are_listed_with_their_paths() -> None:
    from akdl.training.objects import unknown_names

    config = {
        "optimizer": ["sgd", {"name": "Adam", "args": {"learning_rate": {"name": "Decay"}}}],
        "loss": {"a": "mse", "b": {"name": "BinaryCrossentropy", "args": {"smooth": 1}}},
        "metrics": [{"name": "AUC", "args": {"rows": 3}}, "accuracy", "mine", "nothing"],
    }
    found = unknown_names(config, user_module(mine=lambda y_true, y_pred: 0))
    assert [one.partition(";")[0].partition(",")[0] for one in found] == [
        "optimizer[1].args.learning_rate: there is no learning rate schedule 'Decay'",
        "loss.b: BinaryCrossentropy: unknown argument smooth",
        "metrics[0]: AUC: unknown argument rows",
        "metrics[3]: there is no metric 'nothing'",
    ]


def test_unknown_names_is_empty_for_a_correct_config() -> None:
    from akdl.training.objects import unknown_names

    rate = {
        "name": "ExponentialDecay",
        "args": {"initial_learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.5},
    }
    config = {
        "optimizer": {"name": "sgd", "args": {"learning_rate": rate}},
        "loss": "mse",
        "metrics": {"a": ["AUC"]},
    }
    assert unknown_names(config, user_module()) == []


@pytest.mark.parametrize(
    ("label", "output", "kind"),
    [([5, 1], [5, 1], "Binary"), ([5], [5, 3], "SparseCategorical"), ([5, 1], [5, 3], "SparseCategorical"), ([5, 3], [5, 3], "Categorical")],
)  # fmt: skip
def test_accuracy_follows_the_shapes_of_labels_and_outputs(
    label: list[int], output: list[int], kind: str
) -> None:
    import tensorflow as tf

    from akdl.training.objects import make_metric

    made = make_metric("accuracy", user_module(), tf.zeros(label), tf.zeros(output))
    assert (type(made).__name__, made.name) == (f"{kind}Accuracy", "accuracy")


def test_heads_of_one_output_take_no_names() -> None:
    from akdl.training.objects import Heads

    heads = Heads(None, "tensor")
    assert heads.split("labels", "y") == ["y"]
    assert heads.specs("loss", {"name": "mse"}, None) == [{"name": "mse"}]
    with pytest.raises(
        ValueError, match="loss: expected no name, as the model has one output, got the output 'a'"
    ):
        heads.specs("loss", {"a": "mse"}, None)


def test_heads_of_several_outputs_split_by_name_or_order() -> None:
    from akdl.training.objects import Heads

    heads = Heads(None, {"a": "x", "b": "y"})
    assert heads.split("labels", {"b": 2, "a": 1}) == [1, 2]
    assert heads.split("weights", None) == [None, None]
    assert heads.specs("loss", {"b": "mse"}, None) == [None, "mse"]
    assert heads.specs("loss", ["mae", "mse"], None) == ["mae", "mse"]
    with pytest.raises(ValueError, match="labels: expected the output 'b', got a"):
        heads.split("labels", {"a": 1})
    with pytest.raises(ValueError, match=r"labels: expected 2 values for the outputs a, b, got 3"):
        heads.split("labels", (1, 2, 3))


def _columns(*values: list[float]) -> list[Any]:
    import tensorflow as tf

    return [tf.constant(one)[:, None] for one in values]
