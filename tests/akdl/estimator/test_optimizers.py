"""Optimizers of all kinds, translated for Estimators."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.akdl.estimator.custom import CLASSES, estimator, input_fn

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning"
    ),
]


@pytest.mark.long
def test_optimizers_all_three_kinds_count_steps_and_resume(tmp_path: Path) -> None:
    import tensorflow as tf

    kinds = {
        "newer": tf.keras.optimizers.SGD(
            tf.keras.optimizers.schedules.ExponentialDecay(0.1, 100, 0.5), momentum=0.5
        ),
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


def test_maker_makes_a_legacy_optimizer_with_the_settings_of_a_new_one() -> None:
    import tensorflow as tf

    from akdl.estimator.common_estimator import maker

    made = maker(tf.keras.optimizers.Adam(0.3, beta_1=0.8, amsgrad=True, clipnorm=2.0))()
    assert isinstance(made, tf.keras.optimizers.legacy.Adam)
    config = made.get_config()
    assert (config["beta_1"], config["amsgrad"], config["clipnorm"]) == (0.8, True, 2.0)
    assert config["learning_rate"] == pytest.approx(0.3)


def test_maker_accepts_names_and_configs_of_keras_optimizers(tmp_path: Path) -> None:
    import tensorflow as tf

    from akdl.estimator.common_estimator import maker

    legacy = tf.keras.optimizers.legacy
    for name, kind in (
        ("adam", legacy.Adam),
        ("SGD", legacy.SGD),
        ("RMSprop", legacy.RMSprop),
        ("ftrl", legacy.Ftrl),
    ):
        assert isinstance(maker(name)(), kind)
    made = maker({"class_name": "Adam", "config": {"learning_rate": 0.5}})()
    assert made.get_config()["learning_rate"] == pytest.approx(0.5)
    with pytest.raises(ValueError, match="Unknown optimizer: 'lion'"):
        maker("lion")
    with pytest.raises(
        TypeError, match="optimizer: expected an optimizer of Keras, its name, .*, got 0.1"
    ):
        maker(0.1)
    trained = estimator(tmp_path, optimizer="adam")
    trained.train(input_fn(CLASSES), max_steps=2)
    assert trained.get_variable_value("global_step") == 2


def test_maker_refuses_arguments_that_legacy_optimizers_lack() -> None:
    import tensorflow as tf

    from akdl.estimator.common_estimator import maker

    with pytest.raises(
        ValueError,
        match=r"cannot use Adam with weight_decay=0.1: tf.keras.optimizers.legacy.Adam has no such",
    ):
        maker(tf.keras.optimizers.Adam(weight_decay=0.1))
    with pytest.raises(
        ValueError, match="cannot use Lion: choose an optimizer of tf.keras.optimizers.legacy"
    ):
        maker(tf.keras.optimizers.Lion())
