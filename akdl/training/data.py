"""The datasets of the user's functions, cut into one batch per replica and step.

By default all workers of a group make the same dataset and share its rows, so that a group sees in
each step the rows that one process would see. If workers have datasets of their own (`own`), they
only share the batch size. A function with `batch_size` in its signature makes batches for one
replica; else the runner makes the batches.
"""

from __future__ import annotations

import itertools
from typing import Any, Iterator, Mapping, NamedTuple

import tensorflow as tf

from akdl.training.user_functions import UserModule
from akdl.training.workers import Group
from akdl.user_code.config_file import Config

# This is its name in all versions of TensorFlow 2.
AUTOTUNE = tf.data.experimental.AUTOTUNE


class DataError(ValueError):
    """A dataset of the user's module cannot be used; the message names the function."""


class Part(NamedTuple):
    """The rows of one replica in one step; a stand-in for missing rows has 0 of them."""

    features: Any
    label: Any
    weight: Any
    rows: int


class DatasetSource:
    """A dataset function of the user's module, on this worker.

    Args:
        user: The module with the function.
        callback: Name of the function.
        config: The task config with its arguments and `batch_size`.
        group: The workers that share the rows.
        own: Each worker has a dataset of its own, so that its rows are not shared.
        exact: A step has exactly `batch_size` rows, or the config is refused. Otherwise the number
            may be rounded up, as the number of rows in a step does not change a metric.
        labelled: Elements are (features, label) or (features, label, weight); otherwise features.
    """

    def __init__(
        self,
        user: UserModule,
        callback: str,
        config: Config,
        group: Group,
        own: bool = False,
        exact: bool = False,
        labelled: bool = True,
    ) -> None:
        self._user, self._callback, self._config, self._group = user, callback, config, group
        self._own, self._labelled = own, labelled
        self._batched = user.takes(callback, "batch_size")
        batch_size, replicas = config["batch_size"], group.replicas
        # A batch size that the function gets is one for a replica, so it has to divide evenly.
        # Otherwise the runner cuts a batch, and only needs a row for each replica.
        if exact and (batch_size % replicas if self._batched else batch_size < replicas):
            good = [
                max(1, batch_size // replicas) * replicas,
                (batch_size // replicas + 1) * replicas,
            ]
            raise DataError(
                f"batch_size {batch_size} cannot be divided among {replicas} replicas: set "
                + " or ".join(map(str, sorted(set(good))))
            )
        self.local_replicas = group.local_replicas
        # Each replica gets a row at least.
        self._batch_size = max(batch_size, replicas)
        self._replica_batch = -(-batch_size // replicas)

    def datasets(self) -> dict[str, Any]:
        """Call the function and return its datasets by key.

        The key is "" for a single dataset, and "0", "1" and so on for a tuple.
        """
        made = self._user.create(self._callback, self._config, batch_size=self._replica_batch)
        if isinstance(made, Mapping):
            named = {str(key): one for key, one in made.items()}
        elif isinstance(made, (list, tuple)):
            named = {str(index): one for index, one in enumerate(made)}
        else:
            named = {"": made}
        for key, one in named.items():
            where = self.where(key)
            if not isinstance(one, tf.data.Dataset):
                raise DataError(f"{where}: expected a tf.data.Dataset, got {type(one).__name__}")
            spec = one.element_spec
            if self._labelled and not (isinstance(spec, tuple) and len(spec) in (2, 3)):
                raise DataError(
                    f"{where}: expected elements (features, label) or (features, label, weight),"
                    f" got {spec}"
                )
        # One model is traced for all of them, so they have to have one structure.
        _check_same_structure(named, self.where())
        return named

    def where(self, key: str = "") -> str:
        """Name the function, its file and the dataset, for messages."""
        return f"{self._callback} in {self._user.file}" + (f", dataset {key}" if key else "")

    def dataset(self) -> Any:
        """Call the function, which has to return a single dataset."""
        named = self.datasets()
        if list(named) != [""]:
            raise DataError(f"{self.where()}: expected one tf.data.Dataset, got {len(named)}")
        return named[""]

    def steps(self, dataset: Any, skip: int = 0) -> Iterator[list[Part | None]]:
        """Yield for each step one part per replica of this worker; None for a replica without rows.

        The first `skip` steps are read and dropped, for a training that resumes. Workers with fewer
        rows end earlier, and the caller has to take part in the remaining steps.
        """
        count = self.local_replicas
        if self._batched:
            # The function's batches are for one replica, so a step takes `count` of them. A dataset
            # may contain batches without rows: they are not steps, so they are not skipped as such.
            batches = map(self._part, self._own_batches(dataset).prefetch(AUTOTUNE))
            with_rows = (part for part in batches if part is not None)
            parts = itertools.islice(with_rows, skip * count, None)
            while True:
                step = list(itertools.islice(parts, count))
                if not step:
                    return
                yield step + [None] * (count - len(step))
        # `prefetch` cuts the rows of the next step while the model computes this one.
        for element in self._cut(dataset).skip(skip).prefetch(AUTOTUNE):
            yield [self._part(one) for one in element]

    def filled_steps(self, dataset: Any) -> Iterator[list[Part]]:
        """Yield `steps` with a part for each replica, since all of them run at once.

        A replica without rows gets a row that nothing counts. With fewer rows than workers, this
        worker may have no such row, and no step.
        """
        spare: Part | None = None
        for parts in self.steps(dataset):
            first = next(filter(None, parts), None)
            if spare is None and first is not None:
                spare = without_rows(first)
            if spare is not None:
                yield [part or spare for part in parts]

    def sample(self, dataset: Any, key: str = "") -> Part:
        """Return a part to build the model on; all workers have to call this.

        A worker without rows gets zeros of the right shapes, because it has to build the same
        variables as the other workers. Without any row in the group this is an error.
        """
        first = next(
            (part for step in self.steps(dataset) for part in step if part is not None), None
        )
        # All workers ask together, so that a group without rows fails everywhere.
        if not self._group.sum(0 if first is None else 1):
            raise DataError(
                f"{self.where(key)}: there are no rows: the dataset is empty, or drops its only"
                " batch because it is too small"
            )
        if first is not None:
            return first
        # The spec of a batch has an axis for the rows, and the spec of a row lacks it.
        batched = dataset if self._batched else dataset.batch(1)
        part = self._part(tf.nest.map_structure(_zeros, batched.element_spec))
        assert part is not None
        return part

    def _own_batches(self, dataset: Any) -> Any:
        """Return this worker's batches of a dataset whose function makes batches for one replica.

        The batches of a step are consecutive, so a worker with several replicas takes runs of
        batches. A plain `shard` would give it batches of several steps.
        """
        group = self._group
        if self._own or group.ranks == 1:
            return dataset
        if group.local_replicas == 1:
            return dataset.shard(group.ranks, group.rank)

        def is_ours(index: Any, *_: Any) -> Any:
            return (index // group.local_replicas) % group.ranks == group.rank

        return dataset.enumerate().filter(is_ours).map(lambda _, element: element)

    def _cut(self, dataset: Any) -> Any:
        """Return a dataset with a tuple for each step: the parts of this worker's replicas.

        All workers read the same rows and batch them alike, and each takes its parts. So a group
        sees in a step the rows that one process would see, in whatever way they are divided.
        """
        group, per_worker = self._group, self.local_replicas
        if self._own:
            first = group.rank * per_worker
            # The shares of all workers add up to `batch_size` although it may not be divisible.
            bounds = [
                self._batch_size * number // group.replicas
                for number in (first, first + per_worker)
            ]
            rows, pieces, ours = bounds[1] - bounds[0], per_worker, range(per_worker)
        else:
            rows, pieces = self._batch_size, group.replicas
            ours = range(group.rank * per_worker, (group.rank + 1) * per_worker)
        batches = dataset.batch(rows)
        if pieces == 1:
            return batches.map(lambda *element: (_packed(element),))

        def cut(*element: Any) -> Any:
            whole = _packed(element)
            # The last batch is smaller, so the cuts depend on its length. They differ by at most
            # one row.
            length = tf.shape(_first(whole), out_type=tf.int64)[0]
            return tuple(
                tf.nest.map_structure(
                    lambda one, number=number: _slice(
                        one, length * number // pieces, length * (number + 1) // pieces
                    ),
                    whole,
                )
                for number in ours
            )

        return batches.map(cut, num_parallel_calls=AUTOTUNE)

    def _part(self, element: Any) -> Part | None:
        if self._labelled:
            # An element without a weight gets None in its place.
            features, label, weight = (*element, None)[:3]
        else:
            # A dataset of features alone may have them in a tuple of one.
            features = element[0] if isinstance(element, tuple) and len(element) == 1 else element
            label = weight = None
        rows = int(_first(features if label is None else label).shape[0])
        return Part(features, label, weight, rows) if rows else None


class Passes:
    """The steps of all passes over the training data, and this worker's position in them.

    `seed` fixes the order of each pass. With `repeats` the next pass begins after the last row; by
    default empty steps follow until `next_pass` is called, so that workers with fewer rows take
    part in the rest of an epoch.
    """

    def __init__(self, source: DatasetSource, seed: int | None, repeats: bool) -> None:
        self._source, self.seed, self._repeats = source, seed, repeats
        self._dataset = source.dataset()
        self.sample = source.sample(self._dataset)
        self._spare = without_rows(self.sample)
        self.number = self.steps_in_pass = self.steps_in_epoch = 0

    def next_pass(self) -> None:
        """Begin the next pass over the rows at its first step."""
        self.number += 1
        self.steps_in_pass = 0

    def steps(self) -> Iterator[list[Part]]:
        """Yield the steps of all passes without end; the caller decides when an epoch is over.

        A replica without rows gets a row that nothing counts.
        """
        while True:
            # A pass that is resumed behind its last row yields no step, but it has had rows.
            current, any_rows = self.number, self.steps_in_pass > 0
            # A pass's order depends on the seed and its number alone. So a resumed training makes
            # the dataset again and skips the steps it has made.
            if self.seed is not None:
                tf.random.set_seed(self.seed + current)
                self._dataset = self._source.dataset()
            for parts in self._source.steps(self._dataset, skip=self.steps_in_pass):
                self.steps_in_pass += 1
                any_rows = True
                yield [part or self._spare for part in parts]
            # Without the second condition an empty dataset would begin passes without end.
            if self._repeats and any_rows:
                self.next_pass()
            # Other workers may have more rows, and their sums wait for this worker.
            while self.number == current:
                yield [self._spare] * self._source.local_replicas


def without_rows(part: Part) -> Part:
    """Return one row of a part, for a replica without rows: some layers cannot take zero rows.

    Its number of rows is 0, so that no loss and no metric counts the row.
    """

    def cut(one: Any) -> Any:
        return None if one is None else _slice(one, 0, 1)

    features, label, weight = (tf.nest.map_structure(cut, one) for one in part[:3])
    return Part(features, label, weight, 0)


def label_of(name: str, key: str) -> str:
    """Name a metric of one of several datasets: `auc(0)`."""
    return f"{name}({key})" if key else name


def _packed(element: tuple[Any, ...]) -> Any:
    # `map` passes the parts of a tuple as arguments, and any other element as one argument.
    return element if len(element) > 1 else element[0]


def _first(structure: Any) -> Any:
    """Return the first tensor, which has the number of rows that all of them have."""
    return next(one for one in tf.nest.flatten(structure) if one is not None)


def _slice(one: Any, start: Any, end: Any) -> Any:
    """Return some rows; None stays None, and sparse tensors do not support `[start:end]`."""
    if one is None:
        return None
    if isinstance(one, tf.SparseTensor):
        size = tf.concat([[tf.cast(end - start, tf.int64)], one.dense_shape[1:]], 0)
        begin = tf.concat([[tf.cast(start, tf.int64)], tf.zeros_like(one.dense_shape[1:])], 0)
        return tf.sparse.slice(one, begin, size)
    return one[start:end]


def _zeros(spec: Any) -> Any:
    if not isinstance(spec, tf.TensorSpec):
        # The class is not public.
        if type(spec).__name__ == "NoneTensorSpec":
            return None
        raise DataError(
            f"this worker has no rows, and a row of zeros cannot be made for {spec}: use fewer"
            " workers"
        )
    if spec.shape.rank is None:
        raise DataError(
            f"this worker has no rows, and the shape of {spec} is unknown: set it, or use fewer"
            " workers"
        )
    # Dimensions of unknown size get 1, since a model may not accept 0.
    return tf.zeros([size or 1 for size in spec.shape], spec.dtype)


def _check_same_structure(datasets: Mapping[str, Any], where: str) -> None:
    specs = {key: dataset.element_spec for key, dataset in datasets.items()}
    if not specs:
        raise DataError(f"{where}: expected one dataset or more, got an empty tuple or dict")
    known, first = next(iter(specs.items()))
    for key, spec in specs.items():
        try:
            pairs = tf.nest.map_structure(lambda a, b: a.is_compatible_with(b), first, spec)
            same = all(tf.nest.flatten(pairs))
        except (TypeError, ValueError):
            same = False
        if not same:
            raise DataError(
                f"{where}: expected datasets of one structure; dataset {known} has {first}, dataset"
                f" {key} has {spec}"
            )
