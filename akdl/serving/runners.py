"""Calls of a loaded model: the function of a signature, or its graph in a session."""

import logging
from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np

from akdl.serving.number_cells import Array
from akdl.serving.prediction_errors import ServingError
from akdl.serving.signature import Signature, TensorDescription
from akdl.storage.patterns import without_pattern
from akdl.tf_version import is_tensorflow_2

logger = logging.getLogger(__name__)


class FunctionRunner:
    """Calls the signature of a model that TensorFlow 2 has loaded."""

    def __init__(
        self,
        folder: str,
        tags: Sequence[str],
        signature: Signature,
        outputs: Sequence[TensorDescription],
        intra_op_parallelism: Optional[int],
    ) -> None:
        import tensorflow as tf

        if intra_op_parallelism is not None:
            try:
                tf.config.threading.set_intra_op_parallelism_threads(intra_op_parallelism)
            except RuntimeError:  # TensorFlow is at work already
                logger.warning(
                    "intraOpParallelism %d has no effect: this process has already used TensorFlow", intra_op_parallelism
                )
        self._tf = tf
        with without_pattern(folder) as path:
            self._loaded = tf.saved_model.load(path, tags=list(tags))
        self._function = self._loaded.signatures[signature.key]
        self._dtypes = {tensor.key: tf.as_dtype(tensor.dtype) for tensor in signature.inputs}
        self._outputs = {tensor.key: _known_type(tensor) for tensor in outputs}

    def run(self, feeds: Dict[str, Array]) -> Dict[str, Array]:
        constant, dtypes, function = self._tf.constant, self._dtypes, self._function
        if function is None:
            raise ServingError("the model is closed")
        results = function(**{key: constant(_in_dtype(array, dtypes[key])) for key, array in feeds.items()})
        return {key: np.asarray(results[key].numpy(), dtype) for key, dtype in self._outputs.items()}

    def close(self) -> None:
        self._function = self._loaded = None


class SessionRunner:
    """Runs the graph of a signature in a session: TensorFlow 1, or 2 without eager execution."""

    def __init__(
        self,
        folder: str,
        tags: Sequence[str],
        signature: Signature,
        outputs: Sequence[TensorDescription],
        intra_op_parallelism: Optional[int],
    ) -> None:
        import tensorflow as tf

        config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=intra_op_parallelism or 0, allow_soft_placement=True)
        config.gpu_options.allow_growth = True
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph, config=config)
        try:
            with graph.as_default(), without_pattern(folder) as path:
                tf.compat.v1.saved_model.load(self._session, list(tags), path)
        except BaseException:
            self._session.close()
            raise
        self._dtypes = {tensor.key: tf.as_dtype(tensor.dtype) for tensor in signature.inputs}
        self._feeds = {tensor.key: tensor.tensor for tensor in signature.inputs}
        self._fetches = {tensor.key: tensor.tensor for tensor in outputs}
        self._outputs = {tensor.key: _known_type(tensor) for tensor in outputs}

    def run(self, feeds: Dict[str, Array]) -> Dict[str, Array]:
        fed = {self._feeds[key]: _in_dtype(array, self._dtypes[key]) for key, array in feeds.items()}
        fetched = self._session.run(self._fetches, fed)
        return {key: np.asarray(value, self._outputs[key]) for key, value in fetched.items()}

    def close(self) -> None:
        self._session.close()


def runs_eagerly() -> bool:
    """Test if TensorFlow 2 runs eagerly, which `FunctionRunner` requires; otherwise `SessionRunner` is used."""
    import tensorflow as tf

    return is_tensorflow_2() and bool(tf.executing_eagerly())


def refusals() -> Tuple[Any, ...]:
    """Errors of TensorFlow for unsuitable values, after which other rows may still succeed."""
    import tensorflow as tf

    return tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError, tf.errors.NotFoundError


def _in_dtype(array: Array, dtype: Any) -> Array:
    return array.astype(dtype.as_numpy_dtype) if dtype.name == "bfloat16" else array


def _known_type(tensor: TensorDescription) -> Any:
    """Type for an output's array if it differs from the tensor's: TensorFlow adds bfloat16 to numpy."""
    return np.float32 if tensor.dtype == "bfloat16" else None
