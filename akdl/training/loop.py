"""Training steps: the loss over the rows of all workers, and the gradients.

The runner has its own loop instead of `Model.fit` for three reasons: the loss of a step is the mean
over the rows of all workers, even if their shares differ; each of several optimizers changes its
own variables; and workers without rows take part until the last worker has no more rows.
"""

from __future__ import annotations

import math
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from akdl.training.data import DatasetSource, Part
from akdl.training.model_call import describe, evaluated
from akdl.training.objects import Heads, make_loss
from akdl.training.row_metrics import Metrics, traced_once, with_mask, with_one_rank
from akdl.training.user_functions import ObjectError
from akdl.training.workers import Group
from akdl.user_code.config_file import Config

# The state of these operations is not in checkpoints. If a model has one of them, each epoch begins
# with a new trace and new seeds, so that a resumed training draws the same numbers.
_STATEFUL_RANDOM = {
    "Multinomial",
    "ParameterizedTruncatedNormal",
    "RandomGamma",
    "RandomPoissonV2",
    "RandomShuffle",
    "RandomStandardNormal",
    "RandomUniform",
    "RandomUniformInt",
    "TruncatedNormal",
}


class Objective:
    """The loss of all outputs, each with its factor.

    A part's value is its share of the mean over all rows of a step. So the sum over all replicas is
    the mean, however the rows are divided among them. With a mask, it is the mean over the values
    that the mask keeps, as in Keras.
    """

    def __init__(self, config: Config, user: Any, heads: Heads) -> None:
        specs = heads.specs("loss", config["loss"], None)
        self._heads = heads
        self._losses = [None if spec is None else make_loss(spec, user) for spec in specs]
        self._factors = heads.specs("loss_weights", config.get("loss_weights", 1.0), 1.0)

    def __call__(
        self,
        part: Part,
        outputs: Any,
        total: Any,
        masks: object = None,
        over_replicas: Callable[[tf.Tensor], tf.Tensor] | None = None,
    ) -> Any:
        """Return this part's share of the mean over `total` rows.

        `over_replicas` sums a number over the parts of all replicas, whose rows are the total.
        """
        labels = self._heads.split("labels", part.label)
        weights = self._heads.split("weights", part.weight)
        shares = []
        for loss, factor, label, output, mask, weight in zip(
            self._losses,
            self._factors,
            labels,
            self._heads.split("outputs", outputs),
            self._heads.split("masks", masks),
            weights,
        ):
            if loss is None:
                continue
            output, label, weight = with_one_rank(output, label, weight)
            # The loss has no reduction, see `make_loss`, so there is a value per row.
            values = loss(label, output, sample_weight=with_mask(mask, weight))
            # Numbers of two bytes hold neither sums nor counts of rows.
            if values.dtype.size < tf.float32.size:
                values = tf.cast(values, tf.float32)
            rows = tf.cast(tf.shape(output)[0], values.dtype)
            # A user's function may have taken the mean over the part's rows already.
            if values.shape.rank == 0:
                share = values * rows
            else:
                # A loss of a sequence has several values per row, which count as their mean.
                each = tf.cast(tf.size(values), values.dtype) / rows
                if mask is not None:
                    each *= tf.reduce_mean(tf.cast(mask, values.dtype))
                    if over_replicas is not None:
                        # The mask of a part may keep more values per row than the other masks.
                        each = over_replicas(each * rows) / tf.cast(total, values.dtype)
                # A mask may keep no value of a part.
                share = tf.math.divide_no_nan(tf.reduce_sum(values), each)
            shares.append(factor * share / tf.cast(total, values.dtype))
        return tf.add_n(shares)


class VariableGroups:
    """The trainable variables, and which of several optimizers changes each of them.

    Raises:
        ObjectError: The user's function leaves variables out, or names one twice: it would silently
            not be trained, or be changed twice in a step.
    """

    def __init__(
        self, model: Any, optimizers: Sequence[Any], group_fn: Callable[[Any], Any] | None
    ) -> None:
        self.variables = list(model.trainable_variables)
        self.optimizers = list(optimizers)
        if len(optimizers) == 1:
            # `task_configs` refuses a function for groups next to a single optimizer.
            self.groups = [list(range(len(self.variables)))]
        else:
            assert group_fn is not None
            self.groups = self._checked(_as_groups(group_fn(model)))
        for optimizer, group in zip(self.optimizers, self.groups):
            variables = [self.variables[number] for number in group]
            # Newer optimizers make their variables here, and a checkpoint can only be assigned to
            # variables that exist.
            if hasattr(optimizer, "build"):
                optimizer.build(variables)

    def apply(self, gradients: Sequence[Any]) -> None:
        """Apply the gradients of a replica, which calls this."""
        for optimizer, group in zip(self.optimizers, self.groups):
            # A variable on which the loss does not depend has no gradient, and keeps its value.
            pairs = [
                (gradients[number], self.variables[number])
                for number in group
                if gradients[number] is not None
            ]
            if pairs:
                optimizer.apply_gradients(pairs)

    def _checked(self, given: Sequence[Sequence[Any]]) -> list[list[int]]:
        where = "awf_group_trainable_vars_fn"
        if len(given) != len(self.optimizers):
            raise ObjectError(
                f"{where}: expected a group for each of {len(self.optimizers)} optimizers, got"
                f" {len(given)} groups"
            )
        numbers = {id(variable): number for number, variable in enumerate(self.variables)}
        foreign = [_path(one) for group in given for one in group if id(one) not in numbers]
        if foreign:
            raise ObjectError(
                f"{where}: expected trainable variables of the model, got also {', '.join(foreign)}"
            )
        groups = [[numbers[id(one)] for one in group] for group in given]
        flat = [number for group in groups for number in group]
        missing = [_path(one) for number, one in enumerate(self.variables) if number not in flat]
        double = [_path(one) for number, one in enumerate(self.variables) if flat.count(number) > 1]
        if missing or double:
            parts = [f"in no group: {', '.join(missing)}"] * bool(missing) + [
                f"in several: {', '.join(double)}"
            ] * bool(double)
            raise ObjectError(
                f"{where}: expected each trainable variable in exactly one group;"
                f" {'; '.join(parts)}"
            )
        return groups


class TrainStep:
    """One step of training on all replicas; all workers make the same steps.

    The loss and the gradients of a replica without rows are 0, and its call does not change
    variables that are means over replicas. `losses` is the sum of the losses, each times the rows
    of its step, and `bad_steps` the number of steps since it is no longer finite. Both are
    variables of the graph, so that a step waits for no number. `has_random_state`, set by the first
    step: the model has random operations whose state is not in checkpoints.
    """

    def __init__(
        self,
        group: Group,
        model: Any,
        variables: VariableGroups,
        objective: Objective,
        metrics: Metrics,
    ) -> None:
        self._group = group
        self._model = model
        self._variables = variables
        self._objective = objective
        self._metrics = metrics
        # Each replica has its own value of these, such as the moving mean of a normalization, and
        # the model has their mean.
        self._averaged = [
            one
            for one in tf_variables(model.variables)
            if one.synchronization == tf.VariableSynchronization.ON_READ
            and one.aggregation == tf.VariableAggregation.MEAN
        ]
        self.losses = tf.Variable(0.0, trainable=False, dtype=tf.float64)
        self.bad_steps = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.has_random_state = False
        self.renew()

    def renew(self) -> None:
        """Trace again, so that random operations take new seeds from the current seed."""
        self._run = traced_once(self._step)

    def __call__(self, parts: Sequence[Part]) -> Stepped:
        """Make a step, and return rows and loss; all workers have to call this.

        The sum of the rows comes first and blocks until all workers are at this step. It is 0 on
        all workers at once, and then no worker makes the step.
        """
        stand_ins = sum(not part.rows for part in parts)
        # All workers have to make the same sums in a step, so all of them count the stand-ins.
        total, stand_ins = self._group.sum([sum(part.rows for part in parts), stand_ins])
        if not total:
            return Stepped(0, None)
        # Python values are part of the trace: each combination of replicas with and without rows
        # has one of its own.
        present = tuple(part.rows > 0 for part in parts)
        values = [(*part[:3], tf.constant(part.rows, tf.float32)) for part in parts]
        return Stepped(
            int(total),
            # `total` is a tensor, because each value of a Python number would make a trace of its
            # own.
            self._run(
                self._group.local_values(values),
                tf.constant(total, tf.float32),
                present,
                bool(stand_ins and self._averaged),
            ),
        )

    def require_finite_loss(self, steps: int, epoch: int) -> None:
        """Raise a LossError with the first bad step if the sum of losses is NaN or infinite.

        The callers ask at ends of epochs, at checkpoints and every few seconds, because reading the
        sum waits for the device.
        """
        total = float(self.losses.numpy())
        if not math.isfinite(total):
            # A sum that is not finite stays so, and every step since then is counted.
            first = steps - int(self.bad_steps.numpy()) + 1
            raise LossError(
                f"the loss is {total} since step {first}, in epoch {epoch}, and no model is saved:"
                " look for NaN and very large numbers in the data, or lower the learning rate"
            )

    def _step(self, argument: Any, total: Any, present: tuple[bool, ...], averages: bool) -> Any:
        # A step is one traced function: each further call from Python would take a large part of
        # the time of a small model.
        local = self._group.strategy.experimental_local_results
        losses, outputs = self._group.strategy.run(
            self._replica_step, args=(argument, total, averages, all(present))
        )
        for (_, label, weight, _), (output, masks), has_rows in zip(
            local(argument), local(outputs), present
        ):
            if has_rows:
                self._metrics.update_in_graph(label, output, weight, masks)
        # Each replica has the sum over all replicas, so one of them stands for the step.
        loss = local(losses)[0]
        self.losses.assign_add(tf.cast(loss, tf.float64) * tf.cast(total, tf.float64))
        self.bad_steps.assign_add(tf.cast(~tf.math.is_finite(self.losses), tf.int64))
        # This runs while the function is traced, so the graph is the one of the step.
        graph = tf.compat.v1.get_default_graph().as_graph_def()
        # The operations of loops and branches are in functions of the graph's library.
        nodes = [
            *graph.node,
            *(node for function in graph.library.function for node in function.node_def),
        ]
        self.has_random_state = any(node.op in _STATEFUL_RANDOM for node in nodes)
        return loss

    def _replica_step(
        self, argument: Any, total: tf.Tensor, averages: bool, all_present: bool
    ) -> Any:
        features, label, weight, rows = argument
        present = rows > 0
        replica = tf.distribute.get_replica_context()

        def over_replicas(number: tf.Tensor) -> tf.Tensor:
            number *= tf.cast(present, number.dtype)
            return replica.all_reduce(tf.distribute.ReduceOp.SUM, number)

        if averages:
            # Their mean stays the same, and is the one that the replicas with rows begin with.
            self._average(rows >= 0)
        with tf.GradientTape() as tape:
            outputs = self._model(features, training=True)
            masks = masks_of(outputs)
            loss = self._objective(
                Part(features, label, weight, 0), outputs, total, masks, over_replicas
            )
            # They may depend on the rows, as with `activity_regularizer`. The shares of all
            # replicas add up to 1, so the others are in the sum once.
            loss += tf.cast(model_losses(self._model) * rows / total, loss.dtype)
        gradients = tape.gradient(loss, self._variables.variables)
        if not all_present:
            # A replica without rows still takes part in the sums.
            loss, *gradients = [_or_zeros(present, one) for one in (loss, *gradients)]
        self._variables.apply(gradients)
        if averages:
            self._average(present)
        return replica.all_reduce(tf.distribute.ReduceOp.SUM, loss), (outputs, masks)

    def _average(self, counts: tf.Tensor) -> None:
        """Assign each averaged variable its mean over the replicas that count."""
        own = [_or_zeros(counts, one) for one in self._averaged]
        number, *sums = tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.SUM, [tf.cast(counts, tf.float32), *own]
        )
        for variable, total in zip(self._averaged, sums):
            variable.assign(total / tf.cast(number, total.dtype))


class LossError(ValueError):
    """The loss or the weights are no longer finite."""


class Stepped(NamedTuple):
    """Result of a step: the rows of all workers, and the loss over them.

    0 rows stand for the end of the data.
    """

    rows: int
    loss: Any


class Evaluation:
    """Metrics, and the loss with an `objective`, of a model over a dataset, on all workers."""

    def __init__(
        self, group: Group, model: Any, metrics: Metrics, objective: Objective | None = None
    ) -> None:
        self._group, self._model, self._metrics, self._objective = group, model, metrics, objective
        self._call = replicas_function(group, self._replica_call)
        self._loss = None if objective is None else traced_once(self._part_loss)

    def run(self, source: DatasetSource, dataset: Any) -> dict[str, float]:
        """Return the metrics, and the loss with an objective; all workers have to call this."""
        self._metrics.reset()
        loss, rows = 0.0, 0
        for parts in source.filled_steps(dataset):
            for part, (output, masks, model_loss) in zip(parts, self._call(parts)):
                if not part.rows:
                    continue
                self._metrics.update(part, output, masks)
                rows += part.rows
                if self._loss is not None:
                    loss += self._loss(part.label, part.weight, output, masks)
                    loss += model_loss * part.rows
        # One sum carries both numbers, as each sum makes all workers wait.
        loss, total = self._group.sum([float(loss), rows])
        logs: dict[str, float] = {}
        if not total:
            raise ObjectError("there are no rows to evaluate on: the dataset is empty")
        if self._objective is not None:
            logs["loss"] = loss / total
        logs.update(self._metrics.result(self._group))
        return logs

    def try_on(self, part: Part, outputs: Any, where: str) -> None:
        """Call loss and metrics once on a part; all workers have to call this.

        This refuses labels, weights and outputs that do not fit together, before the training. It
        also makes the variables of metrics that have them since their first update: workers without
        rows have to add the same states.
        """
        masks = masks_of(outputs)
        try:
            # The calls are eager, so an error is about this batch and not about symbols of a graph.
            self._metrics.update_in_graph(part.label, outputs, part.weight, masks)
            if self._objective is not None:
                self._part_loss(part.label, part.weight, outputs, masks)
        except ObjectError:
            raise
        except Exception as error:
            raise ObjectError(
                f"{where}: loss or metrics fail on the first batch: {type(error).__name__}:"
                f" {error}; labels {describe(part.label)}, weights {describe(part.weight)}, outputs"
                f" {describe(outputs)}"
            ) from error
        self._metrics.reset()

    def _replica_call(self, features: object) -> object:
        outputs = evaluated(self._model, features)
        own = None if self._objective is None else model_losses(self._model)
        return outputs, masks_of(outputs), own

    def _part_loss(
        self, label: object, weight: object, outputs: object, masks: object
    ) -> tf.Tensor:
        assert self._objective is not None
        # With a total of 1 the share is a sum over rows, which `run` divides by the rows of all
        # workers.
        return self._objective(Part(None, label, weight, 0), outputs, 1.0, masks)


def require_finite_weights(model: Any) -> None:
    """Refuse a model with weights that are not finite.

    The loss of a step is computed before its gradients are applied, so the last step's damage shows
    in the weights only.
    """
    for variable in model.trainable_variables:
        if not np.isfinite(variable.numpy()).all():
            raise LossError(
                f"the trained model is not saved: its variable {_path(variable)} has values that"
                " are NaN or infinite since the last step; lower the learning rate"
            )


def tf_variables(variables: Sequence[Any]) -> list[Any]:
    """Return variables of Keras as variables of TensorFlow, which they are not in Keras 3."""
    return [one if isinstance(one, tf.Variable) else one.value for one in variables]


def masks_of(outputs: object) -> object:
    """Return Keras' mask of each output or None; it has to be read in the graph of the call."""
    return tf.nest.map_structure(lambda output: getattr(output, "_keras_mask", None), outputs)


def model_losses(model: object) -> tf.Tensor:
    """Return the sum of a model's own losses; it has to be read in the graph of the call."""
    losses = getattr(model, "losses", [])
    return tf.add_n([tf.constant(0.0), *(tf.cast(one, tf.float32) for one in losses)])


def replicas_function(
    group: Group, call: Callable[[object], object]
) -> Callable[[Sequence[Part]], Sequence[Any]]:
    """Return a function from one part per replica to one result per replica, traced once.

    `call` makes a result of a part's features.
    """

    def run(features: object) -> object:
        return group.strategy.run(call, args=(features,))

    function = traced_once(run)

    def on_replicas(parts: Sequence[Part]) -> Sequence[Any]:
        results = function(group.local_values([part.features for part in parts]))
        return list(group.strategy.experimental_local_results(results))

    return on_replicas


def _or_zeros(condition: tf.Tensor, value: Any) -> Any:
    """Return a tensor or a gradient, or zeros in its place.

    A stand-in row may be of zeros, and a product with 0 would keep a NaN that comes from it.
    """
    if value is None:
        return None
    if isinstance(value, tf.IndexedSlices):
        values = _or_zeros(condition, value.values)
        return tf.IndexedSlices(values, value.indices, value.dense_shape)
    return tf.where(condition, value, tf.zeros_like(value))


def _as_groups(returned: Any) -> list[list[Any]]:
    try:
        return [list(group) for group in returned]
    except TypeError:
        kinds = (
            [type(one).__name__ for one in returned]
            if isinstance(returned, (list, tuple))
            else type(returned).__name__
        )
        raise ObjectError(
            "awf_group_trainable_vars_fn: expected a tuple with the variables of each optimizer,"
            f" got {kinds}"
        ) from None


def _path(variable: Any) -> str:
    """Name a variable: `path` in Keras 3, where names are not unique, else `name`."""
    return str(getattr(variable, "path", None) or getattr(variable, "name", variable))
