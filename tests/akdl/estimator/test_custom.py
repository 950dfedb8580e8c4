"""CommonEstimator with heads, models and optimizers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.akdl.estimator.support import signature

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning"),
]
X = np.random.default_rng(0).normal(3.0, 2.0, size=[200, 2]).astype(np.float32)
CLASSES = (X[:, 0] > X[:, 1]).astype(np.int64)
NUMBERS = X[:, 0] - 2 * X[:, 1] + 1


def input_fn(labels: Any, epochs: int | None = None) -> Any:
    import tensorflow as tf

    return lambda: tf.data.Dataset.from_tensor_slices(({"x": X}, labels)).repeat(epochs).batch(50)


def make_model() -> Any:
    import tensorflow as tf

    inputs = {"x": tf.keras.Input([2], name="x")}
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1)(inputs["x"]))


def estimator(folder: Path, head: Any = "classification", model: Any = make_model, optimizer: Any = None, **more: Any) -> Any:
    import tensorflow as tf

    from akdl.engine.run_config import generate_run_config
    from akdl.estimator.common_estimator import CommonEstimator
    from akdl.estimator.head import UserDefineHead

    return CommonEstimator(
        model=model,
        head=UserDefineHead(head) if isinstance(head, str) else head,
        optimizer=optimizer or tf.keras.optimizers.Adam(0.1),
        config=generate_run_config(save_checkpoints_steps=1000, log_step_count_steps=1000, model_dir=str(folder)),
        **more,
    )


def test_head_classification(tmp_path: Path) -> None:
    """Trained, evaluated, exported: the metrics are those that numpy computes from the predictions."""
    import tensorflow as tf

    made = estimator(tmp_path, params={})
    made.train(input_fn(CLASSES), max_steps=300)
    metrics = made.evaluate(input_fn(CLASSES, 1))
    predicted = {
        key: np.stack([row[key] for row in rows])
        for rows in [list(made.predict(input_fn(CLASSES, 1)))]
        for key in ("logits", "logistic", "probabilities", "class_ids")
    }
    z = predicted["logits"][:, 0].astype(np.float64)
    p = 1 / (1 + np.exp(-z))
    np.testing.assert_allclose(predicted["logistic"][:, 0], p, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(predicted["probabilities"], np.stack([1 - p, p], 1), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(predicted["class_ids"][:, 0], z > 0)
    assert metrics["global_step"] == 300
    loss = np.mean(np.logaddexp(0, np.where(CLASSES == 1, -z, z)))  # 1 - p may be 0 in float64
    assert metrics["average_loss"] == pytest.approx(loss, rel=1e-3) == pytest.approx(metrics["loss"], rel=1e-3)
    assert metrics["accuracy"] == pytest.approx(np.mean((z > 0) == CLASSES))
    assert metrics["label/mean"] == pytest.approx(CLASSES.mean())
    assert metrics["prediction/mean"] == pytest.approx(p.mean(), rel=1e-3)
    pairs = (z[CLASSES == 1][:, None] - z[CLASSES == 0][None]).ravel()
    assert metrics["auc"] == pytest.approx(np.mean((pairs > 0) + 0.5 * (pairs == 0)), abs=0.005)
    assert metrics["auc"] > 0.98 and metrics["average_loss"] < 0.2

    spec = {"x": tf.io.FixedLenFeature([2], tf.float32)}
    folder = made.export_saved_model(str(tmp_path), tf.estimator.export.build_parsing_serving_input_receiver_fn(spec))
    rows = tf.constant([_example(x) for x in X[:7]])
    exported = folder.decode()
    served = signature(exported, "predict")(examples=rows)
    assert set(served) == set(predicted)
    for key, values in served.items():
        np.testing.assert_allclose(values, predicted[key][:7], rtol=1e-5)
    for key in ("serving_default", "classification"):
        scores = signature(exported, key)(inputs=rows)["scores"]
        np.testing.assert_allclose(scores, predicted["probabilities"][:7], rtol=1e-5)


def test_head_regression(tmp_path: Path) -> None:
    import tensorflow as tf

    made = estimator(tmp_path, "regression", make_model())
    made.train(input_fn(NUMBERS), max_steps=600)
    metrics = made.evaluate(input_fn(NUMBERS, 1))
    predicted = np.concatenate([row["predictions"] for row in made.predict(input_fn(NUMBERS, 1))])
    assert metrics["average_loss"] == pytest.approx(np.mean((predicted - NUMBERS) ** 2), rel=1e-3)
    assert metrics["average_loss"] < 0.01 and "auc" not in metrics
    spec = {"x": tf.io.FixedLenFeature([2], tf.float32)}
    folder = made.export_saved_model(str(tmp_path), tf.estimator.export.build_parsing_serving_input_receiver_fn(spec))
    for key in ("serving_default", "regression"):
        served = signature(folder.decode(), key)(inputs=tf.constant([_example(x) for x in X[:7]]))["outputs"]
        np.testing.assert_allclose(served.numpy()[:, 0], predicted[:7], rtol=1e-5)


def test_head_keys() -> None:
    import tensorflow as tf

    from akdl.estimator.head import PredictionKeys, UserDefineHead

    head = UserDefineHead("classification")
    assert list(head.predictions(tf.constant([[1.0]]), [PredictionKeys.LOGISTIC])) == ["logistic"]
    with pytest.raises(ValueError, match="keys: expected some of logits, .* for classification, got predictions"):
        head.predictions(tf.constant([[1.0]]), [PredictionKeys.PREDICTIONS])
    with pytest.raises(ValueError, match="task_type: expected 'classification' or 'regression', got 'ranking'"):
        UserDefineHead("ranking")


def test_head_hooks_and_scaffold(tmp_path: Path) -> None:
    """Each is called in its mode, and the scaffold gives the first values."""
    import tensorflow.compat.v1 as tf

    from akdl.estimator.head import UserDefineHead

    called: list[str] = []

    class Hook(tf.train.SessionRunHook):  # type: ignore[misc]
        def __init__(self, name: str) -> None:
            self.name = name

        def begin(self) -> None:
            called.append(self.name)

    class FilledScaffold(tf.train.Scaffold):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(init_fn=lambda scaffold, session: called.append("init"))

    head = UserDefineHead(
        "classification", [Hook("train")], [Hook("chief")], [Hook("evaluate")], [Hook("predict")], FilledScaffold()
    )
    made = estimator(tmp_path, head)
    made.train(input_fn(CLASSES), max_steps=1)
    assert sorted(called) == ["chief", "init", "train"]
    made.evaluate(input_fn(CLASSES, 1))
    next(made.predict(input_fn(CLASSES, 1)))
    assert called[3:] == ["evaluate", "predict"]


def test_head_a_train_op_of_ones_own() -> None:
    import tensorflow.compat.v1 as tf

    from akdl.estimator.head import UserDefineHead

    head, mode = UserDefineHead("regression"), tf.estimator.ModeKeys.TRAIN
    with tf.Graph().as_default():
        weight = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        logits, labels = tf.fill([2, 1], 1.0) * weight, tf.constant([3.0, 5.0])
        step = tf.train.get_or_create_global_step()
        train = tf.train.GradientDescentOptimizer(0.25)
        spec = head.create_estimator_spec(
            {}, mode, logits, labels, train_op_fn=lambda loss: train.minimize(loss, step), regularization_losses=[weight]
        )
        with pytest.raises(ValueError, match="pass either an optimizer or a train_op_fn"):
            head.create_estimator_spec({}, mode, logits, labels)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run(spec.loss) == pytest.approx((9 + 25) / 2)
            session.run(spec.train_op)
            assert session.run(weight) == pytest.approx(0.25 * (8 - 1)), "the gradient is -2 * 4 + 1"


def test_a_head_of_tensorflow(tmp_path: Path) -> None:
    import tensorflow as tf

    made = estimator(tmp_path, tf.estimator.BinaryClassHead())
    made.train(input_fn(CLASSES), max_steps=300)
    assert made.evaluate(input_fn(CLASSES, 1))["auc"] > 0.98


def test_batch_normalization_and_regularization(tmp_path: Path) -> None:
    """The moving mean comes to that of the data, and the losses of layers count."""
    import tensorflow as tf

    def model() -> Any:
        return tf.keras.Sequential(
            [
                tf.keras.layers.DenseFeatures([tf.feature_column.numeric_column("x", [2])]),
                tf.keras.layers.BatchNormalization(momentum=0.9, name="norm"),
                tf.keras.layers.Dense(1, kernel_regularizer=tf.keras.regularizers.l2(0.1), name="dense"),
            ]
        )

    made = estimator(tmp_path, model=model)
    made.train(input_fn(CLASSES), max_steps=100)
    (mean,) = [name for name in made.get_variable_names() if name.endswith("norm/moving_mean")]
    np.testing.assert_allclose(made.get_variable_value(mean), X.mean(axis=0), atol=0.2)
    metrics = made.evaluate(input_fn(CLASSES, 1))
    squares = 0.1 * np.sum(made.get_variable_value(mean.replace("norm/moving_mean", "dense/kernel")) ** 2)
    assert metrics["regularization_loss"] == pytest.approx(squares, rel=1e-4)
    assert metrics["loss"] == pytest.approx(metrics["average_loss"] + squares, rel=1e-4)


def test_a_warm_start(tmp_path: Path) -> None:
    """It begins with the weights of another training, and counts its own steps."""
    estimator(tmp_path / "cold").train(input_fn(CLASSES), max_steps=300)
    cold = estimator(tmp_path / "cold").evaluate(input_fn(CLASSES, 1))
    import tensorflow as tf

    warm = estimator(tmp_path / "warm", optimizer=tf.keras.optimizers.SGD(1e-9), warm_start_from=str(tmp_path / "cold"))
    warm.train(input_fn(CLASSES), max_steps=1)
    metrics = warm.evaluate(input_fn(CLASSES, 1))
    assert metrics["global_step"] == 1
    assert metrics["loss"] == pytest.approx(cold["loss"], rel=1e-4)


def test_optimizers_all_three_kinds_count_steps_and_resume(tmp_path: Path) -> None:
    import tensorflow as tf

    kinds = {
        "newer": tf.keras.optimizers.SGD(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 100, 0.5), momentum=0.5),
        "legacy": tf.keras.optimizers.legacy.Adagrad(1.0),
        "tf1": tf.compat.v1.train.AdamOptimizer(0.1),
    }
    for name, optimizer in kinds.items():
        estimator(tmp_path / name, optimizer=optimizer).train(input_fn(CLASSES), max_steps=20)
        again = estimator(tmp_path / name, optimizer=optimizer)
        again.train(input_fn(CLASSES), max_steps=200)
        metrics = again.evaluate(input_fn(CLASSES, 1))
        assert metrics["global_step"] == 200, name
        assert metrics["auc"] > 0.9, name


def test_optimizers_the_same_mathematics_as_the_given_one() -> None:
    import tensorflow as tf

    from akdl.estimator.optimizers import maker

    made = maker(tf.keras.optimizers.Adam(0.3, beta_1=0.8, amsgrad=True, clipnorm=2.0))()
    assert isinstance(made, tf.keras.optimizers.legacy.Adam)
    config = made.get_config()
    assert (config["beta_1"], config["amsgrad"], config["clipnorm"]) == (0.8, True, 2.0)
    assert config["learning_rate"] == pytest.approx(0.3)


def test_optimizers_names_of_keras(tmp_path: Path) -> None:
    import tensorflow as tf

    from akdl.estimator.optimizers import maker

    legacy = tf.keras.optimizers.legacy
    for name, kind in (("adam", legacy.Adam), ("SGD", legacy.SGD), ("RMSprop", legacy.RMSprop), ("ftrl", legacy.Ftrl)):
        assert isinstance(maker(name)(), kind)
    made = maker({"class_name": "Adam", "config": {"learning_rate": 0.5}})()
    assert made.get_config()["learning_rate"] == pytest.approx(0.5)
    with pytest.raises(ValueError, match=r"cannot use the optimizer 'lion'; it can use Adadelta, .*SGD"):
        maker("lion")
    with pytest.raises(TypeError, match="optimizer: expected an optimizer of Keras, its name, .*, got 0.1"):
        maker(0.1)
    trained = estimator(tmp_path, optimizer="adam")
    trained.train(input_fn(CLASSES), max_steps=2)
    assert trained.get_variable_value("global_step") == 2


def test_optimizers_what_the_older_kind_does_not_know() -> None:
    import tensorflow as tf

    from akdl.estimator.optimizers import maker

    with pytest.raises(ValueError, match=r"cannot use Adam with weight_decay=0.1: tf.keras.optimizers.legacy.Adam has no such"):
        maker(tf.keras.optimizers.Adam(weight_decay=0.1))
    with pytest.raises(ValueError, match="cannot use Lion: choose an optimizer of tf.keras.optimizers.legacy"):
        maker(tf.keras.optimizers.Lion())


def test_models_what_cannot_be_made_anew(tmp_path: Path) -> None:
    import tensorflow as tf

    class Own(tf.keras.Model):  # type: ignore[misc]
        pass

    with pytest.raises(TypeError, match="Own needs get_config .* or pass a function that makes the model"):
        estimator(tmp_path, model=Own())
    with pytest.raises(TypeError, match="model: expected a tf.keras.Model or a function that makes one, got a str"):
        estimator(tmp_path, model="model")


def _example(x: Any) -> bytes:
    import tensorflow as tf

    example = tf.train.Example()
    example.features.feature["x"].float_list.value.extend(x)
    return example.SerializeToString()
