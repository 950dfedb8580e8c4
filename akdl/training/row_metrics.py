"""Metrics over the rows of all workers: each worker has its own state, and results add them up.

The states of Keras' metrics are sums and counts, so they can be added. A mean of the workers'
results would be wrong for shares of different size, and for metrics such as AUC at all.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

import numpy as np
import tensorflow as tf

from akdl.tf_version import tf_version
from akdl.training.data import Part
from akdl.training.objects import Heads, make_metric, metric_name
from akdl.training.user_functions import ObjectError
from akdl.training.workers import Group
from akdl.user_code.config_file import Config


class Metrics:
    """The metrics of all outputs on this worker.

    As in Keras, `metrics` count all rows equally and `weighted_metrics` by their weights. A
    weighted metric whose name is taken is called `weighted_...`.
    """

    def __init__(self, config: Config, user: Any, heads: Heads, label: Any, outputs: Any) -> None:
        labels, split = heads.split("labels", label), heads.split("outputs", outputs)
        self._heads = heads
        self._by_head: list[list[tuple[Any, bool]]] = [[] for _ in heads.names]
        self.names: list[str] = []
        for number, (head, one, output) in enumerate(zip(heads.names, labels, split)):
            prefix = f"{head}_" if heads.several else ""
            # The class of an accuracy depends on the shape that the updates will have.
            output, one, _ = with_one_rank(output, one, None)
            for key in ("metrics", "weighted_metrics"):
                given = config.get(key, [])
                for spec in (
                    heads.specs(key, given, [])[number] if isinstance(given, Mapping) else given
                ):
                    is_weighted, name = key == "weighted_metrics", prefix + metric_name(spec)
                    if is_weighted and name in self.names:
                        name = f"{prefix}weighted_{metric_name(spec)}"
                    self.names.append(name)
                    self._by_head[number].append(
                        (make_metric(spec, user, one, output), is_weighted)
                    )
        # The names are the keys of results and of the history, so the second metric of a name would
        # replace the first.
        double = sorted({name for name in self.names if self.names.count(name) > 1})
        if double:
            raise ObjectError(
                f"metrics: several have the name {', '.join(double)}; set their argument 'name'"
            )
        self._update = traced_once(self.update_in_graph)

    def update(self, part: Part, outputs: Any, masks: object = None) -> None:
        """Add a part to the state of this worker; waits for no other worker."""
        if self.names:
            self._update(part.label, outputs, part.weight, masks)

    def result(self, group: Group) -> dict[str, float]:
        """Return the values over the rows of all workers, and reset; all of them call this."""
        self.set_state(group.sum(self.state()))
        # The state is now the one of the whole group. Without the reset below, the next sum would
        # count it once per worker.
        values = [metric.result() for metric in self._all()]
        self.reset()
        # Reports, history and callbacks take one number per metric.
        wrong = [name for name, value in zip(self.names, values) if np.size(value) != 1]
        if wrong:
            raise ObjectError(f"metric {wrong[0]}: expected one number, got several values")
        return {name: float(np.reshape(value, [])) for name, value in zip(self.names, values)}

    def reset(self) -> None:
        for metric in self._all():
            # Older versions of Keras have the plural only.
            metric.reset_state() if hasattr(metric, "reset_state") else metric.reset_states()

    def state(self) -> Any:
        """Return the variables as one array; arrays of several workers can be added."""
        flat = [np.ravel(variable.numpy()).astype(np.float64) for variable in self._variables()]
        return np.concatenate(flat) if flat else np.zeros(0)

    def set_state(self, state: Any) -> None:
        """Assign the variables from an array of `state`, in the same order."""
        if len(state) != len(self.state()):
            raise ObjectError(
                f"metrics: expected a state of {len(self.state())} numbers for"
                f" {', '.join(self.names) or 'no metrics'}, got {len(state)}: resume inside an"
                " epoch with the metrics that it began with"
            )
        start = 0
        for variable in self._variables():
            size, dtype = int(np.prod(variable.shape)), tf.as_dtype(variable.dtype).as_numpy_dtype
            variable.assign(np.reshape(state[start : start + size], variable.shape).astype(dtype))
            start += size

    def update_in_graph(self, label: Any, outputs: Any, weight: Any, masks: object = None) -> None:
        """Add labels and outputs to the state, inside a traced function or eagerly."""
        labels, weights = self._heads.split("labels", label), self._heads.split("weights", weight)
        for metrics, one, output, mask, factor in zip(
            self._by_head,
            labels,
            self._heads.split("outputs", outputs),
            self._heads.split("masks", masks),
            weights,
        ):
            output, one, factor = with_one_rank(output, one, factor)
            for metric, is_weighted in metrics:
                metric.update_state(
                    one, output, sample_weight=with_mask(mask, factor if is_weighted else None)
                )

    def _all(self) -> list[Any]:
        return [metric for of_head in self._by_head for metric, _ in of_head]

    def _variables(self) -> list[Any]:
        return [variable for metric in self._all() for variable in metric.variables]


def with_one_rank(output: Any, label: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Return output, label and weight with a last axis of size 1 if they have a number per row."""
    # Without that axis, a mean over the last axis would be a mean over all rows of a batch. If only
    # one of label and output had it, their difference would be a matrix of all pairs of rows.
    if output.shape.rank == 1 and (label.shape.rank == 1 or label.shape[1:] == [1]):
        output = tf.expand_dims(output, -1)
    if output.shape.rank == 2:
        label, weight = (
            tf.expand_dims(one, -1) if one is not None and one.shape.rank == 1 else one
            for one in (label, weight)
        )
    return output, label, weight


def with_mask(mask: tf.Tensor | None, weight: tf.Tensor | None) -> tf.Tensor | None:
    """Return a weight of 0 where Keras' mask of an output hides a value, as in Keras."""
    if mask is None:
        return weight
    mask = tf.cast(mask, tf.float32 if weight is None else weight.dtype)
    if weight is None:
        return mask
    # A weight per row counts for all steps of a row.
    rank = max(mask.shape.rank, weight.shape.rank)
    for _ in range(rank - mask.shape.rank):
        mask = tf.expand_dims(mask, -1)
    for _ in range(rank - weight.shape.rank):
        weight = tf.expand_dims(weight, -1)
    return mask * weight


def traced_once(function: Callable[..., object]) -> Any:
    """Return a `tf.function` with one trace for all sizes of batches.

    The last batch is smaller, and a second trace costs as much as the first.
    """
    if tf_version() >= (2, 9):
        return tf.function(function, reduce_retracing=True)
    return tf.function(function, experimental_relax_shapes=True)
