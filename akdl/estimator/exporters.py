"""When an Estimator exports a model: at the end, where it is the best so far, or at each evaluation.

The models take serialized Examples, and are written below `export` and the exporter's name in the Estimator's folder. A
`feature_spec` describes what a request holds, so it is without the label: who asks does not know it.
"""

import json
import os
from typing import Any, Callable, Mapping

import tensorflow as tf

from akdl.engine.export import improves
from akdl.tf_version import require_estimator

_estimator = require_estimator("akdl.estimator.exporters")


def model_final_exporter(model_name: str, feature_spec: Mapping[str, Any]) -> Any:
    """Return an exporter that writes one model, when training has ended.

    Args:
        model_name: Name of the folder.
        feature_spec: Feature name to `tf.io.FixedLenFeature` or another.
    """
    return _estimator.FinalExporter(name=model_name, serving_input_receiver_fn=_receiver(feature_spec))


def model_best_exporter(model_name: str, feature_spec: Mapping[str, Any], metric: str = "auc", bigger: bool = True) -> Any:
    """Return an exporter that writes a model when an evaluation is better than all before, those of earlier runs too.

    Args:
        model_name: Name of the folder.
        feature_spec: See `model_final_exporter`.
        metric: What is compared.
        bigger: Whether the larger value is the better one.
    """
    return _BestExporter(model_latest_exporter(model_name, feature_spec, exports_to_keep=1), metric, bigger)


def model_latest_exporter(model_name: str, feature_spec: Mapping[str, Any], exports_to_keep: int = 3) -> Any:
    """Return an exporter that writes a model at each evaluation.

    Args:
        model_name: Name of the folder.
        feature_spec: See `model_final_exporter`.
        exports_to_keep: Models that are kept, the newest.
    """
    return _estimator.LatestExporter(
        name=model_name, serving_input_receiver_fn=_receiver(feature_spec), exports_to_keep=exports_to_keep
    )


class _BestExporter(_estimator.Exporter):  # type: ignore[misc, name-defined]
    """Exports a model when it is better than the last exported model.

    TensorFlow's own exporter also exports the first model of each run, even if it is worse. To compare across runs, this one
    keeps the evaluation of the exported model in a file beside it.
    """

    def __init__(self, exporter: Any, metric: str, bigger: bool) -> None:
        self._exporter = exporter
        self._improves = improves(metric, bigger)
        self._metric = metric

    @property
    def name(self) -> str:
        name: str = self._exporter.name
        return name

    def export(
        self, estimator: Any, export_path: str, checkpoint_path: str, eval_result: Any, is_the_final_export: bool
    ) -> Any:
        if self._metric not in eval_result:
            raise ValueError(
                f"the best model is chosen by {self._metric!r}, but the evaluation has only {', '.join(eval_result)}"
            )
        kept, current = os.path.join(export_path, "best.json"), {self._metric: float(eval_result[self._metric])}
        if tf.io.gfile.exists(kept):
            with tf.io.gfile.GFile(kept) as file:
                if not self._improves(json.loads(file.read()), current):
                    return None
        exported = self._exporter.export(estimator, export_path, checkpoint_path, eval_result, is_the_final_export)
        with tf.io.gfile.GFile(kept + ".new", "w") as file:
            file.write(json.dumps(current))
        tf.io.gfile.rename(kept + ".new", kept, overwrite=True)
        return exported


def _receiver(feature_spec: Mapping[str, Any]) -> Callable[[], Any]:
    make: Callable[[], Any] = _estimator.export.build_parsing_serving_input_receiver_fn(dict(feature_spec))
    return make
