"""The comparison of evaluations and the default signature, for all exporters of Estimators."""

from typing import Any, Callable, Mapping

import tensorflow as tf

from akdl.tf_version import require_estimator


def improves(metric: str, bigger: bool) -> Callable[..., bool]:
    """Return a comparison of two evaluations, as `compare_fn` of TensorFlow's BestExporter.

    The comparison raises a ValueError with the known names for a metric that is missing.
    """

    def compare(best_eval_result: Mapping[str, Any], current_eval_result: Mapping[str, Any]) -> bool:
        for result in (best_eval_result, current_eval_result):
            if metric not in result:
                raise ValueError(
                    f"the best export is chosen by {metric!r}, but the evaluation has only {', '.join(sorted(result))}: choose "
                    "one of these metrics"
                )
        best, current = best_eval_result[metric], current_eval_result[metric]
        return bool(current > best if bigger else current < best)

    return compare


def served_by_default(estimator: Any) -> Any:
    """Return the estimator with its "predict" signature as the default signature too.

    The default signature of TensorFlow's own estimators takes serialized Examples, and TensorFlow
    leaves it out of an export that takes tensors. A predictor that names no signature would then
    find nothing.
    """
    module = require_estimator()
    default = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY

    def model_fn(features: Any, labels: Any, mode: Any, config: Any) -> Any:
        spec = estimator.model_fn(features, labels, mode, config)
        outputs = dict(spec.export_outputs or {})
        if isinstance(outputs.get("predict"), module.export.PredictOutput):
            outputs[default] = outputs["predict"]
            return spec._replace(export_outputs=outputs)
        return spec

    return module.Estimator(model_fn, model_dir=estimator.model_dir, config=estimator.config)
