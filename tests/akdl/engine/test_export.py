"""The comparison of evaluations, and the default signature of an export."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.mark.parametrize(
    ("bigger", "best", "current", "expected"),
    [(True, 0.5, 0.6, True), (True, 0.5, 0.5, False), (False, 0.5, 0.4, True), (False, 0.5, 0.6, False)],
)
def test_the_better_evaluation(bigger: bool, best: float, current: float, expected: bool) -> None:
    from akdl.engine.export import improves

    assert improves("auc", bigger)(best_eval_result={"auc": best}, current_eval_result={"auc": current}) is expected


def test_a_missing_metric_is_named() -> None:
    from akdl.engine.export import improves

    with pytest.raises(ValueError, match="'auc', .*has only loss"):
        improves("auc", True)({"loss": 1}, {"auc": 0.5})


@pytest.mark.parametrize("has_predict", [True, False])
def test_the_predict_signature_becomes_the_default_one(has_predict: bool) -> None:
    import tensorflow as tf

    from akdl.engine.export import served_by_default

    export = tf.estimator.export

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        outputs = {"serving_default": export.RegressionOutput(tf.constant([1.0]))}
        if has_predict:
            outputs["predict"] = export.PredictOutput({"y": tf.constant([2.0])})
        return tf.estimator.EstimatorSpec(mode, predictions={"y": tf.constant([2.0])}, export_outputs=outputs)

    made = served_by_default(SimpleNamespace(model_fn=model_fn, model_dir=None, config=tf.estimator.RunConfig("unused")))
    with tf.Graph().as_default():
        outputs = made.model_fn({}, None, tf.estimator.ModeKeys.PREDICT, made.config).export_outputs
    kind = export.PredictOutput if has_predict else export.RegressionOutput
    assert isinstance(outputs["serving_default"], kind) and ("predict" in outputs) == has_predict
