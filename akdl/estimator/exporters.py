"""Exporters of Estimators.

They write at the end of the training, for the best model so far, or at each evaluation.

The exported models take serialized Examples, and are written below `export/NAME` in the Estimator's
folder. A `feature_spec` describes a request, so it does not include the label.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, Mapping

import tensorflow as tf

from akdl.tf_version import require_estimator

gfile = tf.io.gfile

_estimator = require_estimator("akdl.estimator.exporters")


def model_final_exporter(model_name: str, feature_spec: Mapping[str, object]) -> Any:
    """Return an exporter that writes one model at the end of the training.

    `feature_spec` maps names to features of `tf.io`.
    """
    return _estimator.FinalExporter(
        name=model_name, serving_input_receiver_fn=_receiver(feature_spec)
    )


def model_best_exporter(
    model_name: str, feature_spec: Mapping[str, object], metric: str = "auc", bigger: bool = True
) -> Any:
    """Return an exporter that writes a model if its evaluation is the best so far.

    Earlier runs count as well.
    """
    # The exporter inside writes the model and removes the one before; whether to write is decided
    # around it.
    return _BestExporter(
        model_latest_exporter(model_name, feature_spec, exports_to_keep=1), metric, bigger
    )


def model_latest_exporter(
    model_name: str, feature_spec: Mapping[str, object], exports_to_keep: int = 3
) -> Any:
    """Return an exporter that writes a model at each evaluation.

    It keeps the newest `exports_to_keep`.
    """
    return _estimator.LatestExporter(
        name=model_name,
        serving_input_receiver_fn=_receiver(feature_spec),
        exports_to_keep=exports_to_keep,
    )


class _BestExporter(_estimator.Exporter):  # type: ignore[misc, name-defined]
    """Exports a model if it is better than the last exported one.

    The evaluation of that one is in `best.json`.

    TensorFlow's own exporter also exports the first model of each run, even if it is worse.
    """

    def __init__(self, exporter: Any, metric: str, bigger: bool) -> None:
        self._exporter = exporter
        self._metric, self._sign = metric, -1.0 if bigger else 1.0

    @property
    def name(self) -> str:
        return str(self._exporter.name)

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Any,
        is_the_final_export: bool,
    ) -> Any:
        if self._metric not in eval_result:
            raise ValueError(
                f"the best export is chosen by {self._metric!r}, but the evaluation has only"
                f" {', '.join(sorted(eval_result))}: choose one of these metrics"
            )
        kept, value = os.path.join(export_path, "best.json"), float(eval_result[self._metric])
        if gfile.exists(kept):
            with gfile.GFile(kept) as file:
                best = json.loads(file.read()).get(self._metric)
            # A NaN is never better than a number, and any evaluation is as good as a NaN.
            is_number = best is not None and not math.isnan(best)
            if is_number and not self._sign * value < self._sign * best:
                return None
        exported = self._exporter.export(
            estimator, export_path, checkpoint_path, eval_result, is_the_final_export
        )
        # The model is exported before its evaluation is recorded, and the record appears by a
        # rename. A process killed in between exports one model too many, but never misses a better
        # one.
        with gfile.GFile(kept + ".new", "w") as file:
            file.write(json.dumps({self._metric: value}))
        gfile.rename(kept + ".new", kept, overwrite=True)
        return exported


def _receiver(feature_spec: Mapping[str, object]) -> Any:
    """Return the receiver of serialized Examples, in the form that exporters call."""
    return _estimator.export.build_parsing_serving_input_receiver_fn(dict(feature_spec))
