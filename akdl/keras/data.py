"""The datasets of the user's functions, cut into one batch per replica and step.

By default all workers of a group make the same dataset and share its rows, so that a group sees in each step the rows that one
process would see. If workers have datasets of their own (`own`), they only share the batch size. A function with `batch_size`
in its signature makes batches for one replica; else the runner makes the batches.
"""

import itertools
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

import tensorflow as tf

from akdl.keras.user_functions import UserModule
from akdl.keras.workers import Group

AUTOTUNE = tf.data.experimental.AUTOTUNE  # its name in all of TensorFlow 2


class DataError(ValueError):
    """A dataset of the user's module cannot be used."""


class Part(NamedTuple):
    features: Any
    label: Any
    weight: Any
    rows: int


class DatasetSource:
    """A dataset function of the user's module, on this worker.

    With `exact`, steps have exactly `batch_size` rows; else the number may be rounded up. `labelled` elements are (features,
    label) or (features, label, weight).
    """

    def __init__(
        self,
        user: UserModule,
        callback: str,
        config: Mapping[str, Any],
        group: Group,
        own: bool = False,
        exact: bool = False,
        labelled: bool = True,
    ) -> None:
        self._user, self._callback, self._config, self._group = user, callback, config, group
        self._own, self._labelled = own, labelled
        self._batched = user.takes(callback, "batch_size")
        batch_size, replicas = config["batch_size"], group.replicas
        if exact and (batch_size % replicas if self._batched else batch_size < replicas):
            good = [max(1, batch_size // replicas) * replicas, (batch_size // replicas + 1) * replicas]
            raise DataError(
                f"batch_size {batch_size} cannot be divided among {replicas} replicas: set "
                + " or ".join(map(str, sorted(set(good))))
            )
        self.local_replicas = group.local_replicas
        self._batch_size = max(batch_size, replicas)
        self._replica_batch = -(-batch_size // replicas)

    def datasets(self) -> Dict[str, Any]:
        """Call the function and return its datasets by key: "" for a single dataset, "0", "1", ... for a tuple."""
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
                raise DataError(f"{where}: expected elements (features, label) or (features, label, weight), got {spec}")
        _check_same_structure(named, self.where())
        return named

    def where(self, key: str = "") -> str:
        return f"{self._callback} in {self._user.file}" + (f", dataset {key}" if key else "")

    def dataset(self) -> Any:
        named = self.datasets()
        if list(named) != [""]:
            raise DataError(f"{self.where()}: expected one tf.data.Dataset, got {len(named)}")
        return named[""]

    def steps(self, dataset: Any, skip: int = 0) -> Iterator[List[Optional[Part]]]:
        """Yield for each step one part per replica of this worker; None for a replica without rows."""
        count = self.local_replicas
        if self._batched:
            parts: Iterator[Any] = iter(self._own_batches(dataset).skip(skip * count).prefetch(AUTOTUNE))
            parts = (part for part in map(self._part, parts) if part is not None)
            while True:
                step = list(itertools.islice(parts, count))
                if not step:
                    return
                yield step + [None] * (count - len(step))
        for element in self._cut(dataset).skip(skip).prefetch(AUTOTUNE):
            yield [self._part(one) for one in element]

    def sample(self, dataset: Any, key: str = "") -> Part:
        """Return a part to build the model on, zeros on a worker without rows; all workers have to call this."""
        first = next((part for step in self.steps(dataset) for part in step if part is not None), None)
        if not self._group.sum(0 if first is None else 1):
            raise DataError(
                f"{self.where(key)}: there are no rows: the dataset is empty, or drops its only batch because it is too small"
            )
        if first is not None:
            return first
        batched = dataset if self._batched else dataset.batch(1)
        part = self._part(tf.nest.map_structure(_zeros, batched.element_spec))
        assert part is not None
        return part

    def _own_batches(self, dataset: Any) -> Any:
        group = self._group
        if self._own or group.ranks == 1:
            return dataset
        if group.local_replicas == 1:
            return dataset.shard(group.ranks, group.rank)

        def is_ours(index: Any, *_: Any) -> Any:
            return (index // group.local_replicas) % group.ranks == group.rank

        return dataset.enumerate().filter(is_ours).map(lambda _, element: element)

    def _cut(self, dataset: Any) -> Any:
        """Return a dataset with a tuple for each step: the parts of this worker's replicas."""
        group, per_worker = self._group, self.local_replicas
        if self._own:
            first = group.rank * per_worker
            bounds = [self._batch_size * number // group.replicas for number in (first, first + per_worker)]
            rows, pieces, ours = bounds[1] - bounds[0], per_worker, range(per_worker)
        else:
            rows, pieces = self._batch_size, group.replicas
            ours = range(group.rank * per_worker, (group.rank + 1) * per_worker)
        batches = dataset.batch(rows)
        if pieces == 1:
            return batches.map(lambda *element: (_packed(element),))

        def cut(*element: Any) -> Any:
            whole = _packed(element)
            length = tf.shape(_first(whole), out_type=tf.int64)[0]
            return tuple(
                tf.nest.map_structure(
                    lambda one, number=number: _slice(one, length * number // pieces, length * (number + 1) // pieces), whole
                )
                for number in ours
            )

        return batches.map(cut, num_parallel_calls=AUTOTUNE)

    def _part(self, element: Any) -> Optional[Part]:
        if self._labelled:
            features, label, weight = (*element, None)[:3]
        else:
            features = element[0] if isinstance(element, tuple) and len(element) == 1 else element
            label = weight = None
        rows = int(_first(features if label is None else label).shape[0])
        return Part(features, label, weight, rows) if rows else None


class Passes:
    """The steps of all passes over the training data, and this worker's position in them.

    `seed` fixes the order of each pass. With `repeats` the next pass begins after the last row; by default empty steps follow
    until `next_pass` is called, so that workers with fewer rows take part in the rest of an epoch.
    """

    def __init__(self, source: DatasetSource, seed: Optional[int], repeats: bool) -> None:
        self._source, self.seed, self._repeats = source, seed, repeats
        self._dataset = source.dataset()
        self.sample = source.sample(self._dataset)
        self.number = self.steps_in_pass = self.steps_in_epoch = 0

    def next_pass(self) -> None:
        self.number += 1
        self.steps_in_pass = 0

    def steps(self) -> Iterator[List[Optional[Part]]]:
        while True:
            current, any_rows = self.number, self.steps_in_pass > 0
            if self.seed is not None:
                tf.random.set_seed(self.seed + current)
                self._dataset = self._source.dataset()
            for parts in self._source.steps(self._dataset, skip=self.steps_in_pass):
                self.steps_in_pass += 1
                any_rows = True
                yield parts
            if self._repeats and any_rows:
                self.next_pass()
            while self.number == current:
                yield [None] * self._source.local_replicas


def without_rows(part: Part) -> Part:
    """Return one row of a part, for a replica without rows: some layers cannot take zero rows."""

    def cut(one: Any) -> Any:
        return None if one is None else _slice(one, 0, 1)

    features, label, weight = (tf.nest.map_structure(cut, one) for one in part[:3])
    return Part(features, label, weight, 0)


def label_of(name: str, key: str) -> str:
    return f"{name}({key})" if key else name


def _packed(element: Tuple[Any, ...]) -> Any:
    # `map` passes the parts of a tuple as arguments, and any other element as one argument.
    return element if len(element) > 1 else element[0]


def _first(structure: Any) -> Any:
    return next(one for one in tf.nest.flatten(structure) if one is not None)


def _slice(one: Any, start: Any, end: Any) -> Any:
    if one is None:
        return None
    if isinstance(one, tf.SparseTensor):
        size = tf.concat([[tf.cast(end - start, tf.int64)], one.dense_shape[1:]], 0)
        begin = tf.concat([[tf.cast(start, tf.int64)], tf.zeros_like(one.dense_shape[1:])], 0)
        return tf.sparse.slice(one, begin, size)
    return one[start:end]


def _zeros(spec: Any) -> Any:
    if not isinstance(spec, tf.TensorSpec):
        if type(spec).__name__ == "NoneTensorSpec":
            return None
        raise DataError(f"this worker has no rows, and a row of zeros cannot be made for {spec}: use fewer workers")
    if spec.shape.rank is None:
        raise DataError(f"this worker has no rows, and the shape of {spec} is unknown: set it, or use fewer workers")
    return tf.zeros([size or 1 for size in spec.shape], spec.dtype)


def _check_same_structure(datasets: Mapping[str, Any], where: str) -> None:
    keys = list(datasets)
    first = datasets[keys[0]].element_spec if keys else None
    for key in keys[1:]:
        spec = datasets[key].element_spec
        try:
            tf.nest.assert_same_structure(first, spec)
            pairs = zip(tf.nest.flatten(first), tf.nest.flatten(spec))
            same = all(_compatible(one, other) for one, other in pairs)
        except (TypeError, ValueError):
            same = False
        if not same:
            raise DataError(
                f"{where}: expected datasets of one structure; dataset {keys[0]} has {first}, dataset {key} has {spec}"
            )
    if not keys:
        raise DataError(f"{where}: expected one dataset or more, got an empty tuple or dict")


def _compatible(one: Any, other: Any) -> bool:
    if isinstance(one, tf.TensorSpec) and isinstance(other, tf.TensorSpec):
        return bool(one.dtype == other.dtype and one.shape.is_compatible_with(other.shape))
    return bool(one == other)
