"""Calls of a loaded model: the function of a signature, or its graph in a session."""

import contextlib
import logging
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from akdl.serving.prediction_errors import Refused, ServingError
from akdl.serving.signature import Signature, TensorDescription
from akdl.storage.model_archive import ModelError
from akdl.storage.patterns import without_pattern
from akdl.tf_version import is_tensorflow_2
from akdl.wire.cells import Array

logger = logging.getLogger(__name__)

Call = Callable[[Dict[str, Array]], Dict[str, Array]]


class Runner:
    """A loaded graph of the SavedModel in `folder`, to call one of its signatures; ModelError if it cannot be loaded."""

    name = "the model"
    turn = contextlib.nullcontext()

    def __init__(
        self,
        folder: str,
        tags: Sequence[str],
        signature: Signature,
        outputs: Sequence[TensorDescription],
        intra_op_parallelism: Optional[int] = None,
    ) -> None:
        self.signature = signature
        self._call: Optional[Call]
        load = _load_function if runs_eagerly() else _load_session
        try:
            with without_pattern(folder) as path:
                self.model, self._call = load(path, list(tags), signature, outputs, intra_op_parallelism)
        except Exception as error:  # TensorFlow raises many types here
            raise ModelError(f"the SavedModel in {folder} cannot be loaded: {type(error).__name__}: {error}") from error
        self._bfloat16 = [tensor.key for tensor in signature.inputs if tensor.dtype == "bfloat16"]
        # bfloat16 is a type that TensorFlow adds to numpy, and that other code lacks. None keeps the tensor's own type.
        self._dtypes = {tensor.key: np.float32 if tensor.dtype == "bfloat16" else None for tensor in outputs}

    def run(self, feeds: Dict[str, Array]) -> Dict[str, Array]:
        call = self._call  # another thread may close the model meanwhile
        if call is None:
            raise ServingError("the model is closed")
        if self._bfloat16:
            import tensorflow as tf

            feeds = {**feeds, **{key: feeds[key].astype(tf.bfloat16.as_numpy_dtype) for key in self._bfloat16}}
        try:
            results = call(feeds)
        except row_errors() as error:
            raise Refused(getattr(error, "message", error), is_out_of_memory(error)) from error
        return {key: np.asarray(results[key], dtype) for key, dtype in self._dtypes.items()}

    def close(self) -> None:
        import tensorflow as tf

        if isinstance(self.model, tf.compat.v1.Session):
            self.model.close()
        self.model = self._call = None


def _load_function(
    path: str, tags: List[str], signature: Signature, outputs: Sequence[TensorDescription], threads: Optional[int]
) -> Tuple[Any, Call]:
    """Load a model with TensorFlow 2; the function alone would not keep the model's variables alive."""
    import tensorflow as tf

    if threads is not None:
        try:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
        except RuntimeError:
            logger.warning("intraOpParallelism %d has no effect: this process has already used TensorFlow", threads)
    model = tf.saved_model.load(path, tags=tags)
    function, constant, keys = model.signatures[signature.key], tf.constant, [tensor.key for tensor in outputs]

    def call(feeds: Dict[str, Array]) -> Dict[str, Array]:
        results = function(**{key: constant(array) for key, array in feeds.items()})
        return {key: results[key].numpy() for key in keys}

    return model, _direct_call(function, keys, call) or call


def _direct_call(function: Any, keys: List[str], indirect: Call) -> Optional[Call]:
    """Call without TensorFlow's checks of arguments, which take 0.3 ms; None where the order of inputs or devices is open."""
    import tensorflow as tf

    captured, found = list(function.captured_inputs), sorted(function.structured_outputs)
    inputs = function.inputs[: len(function.inputs) - len(captured)]
    try:
        order = [tensor.op.get_attr("_user_specified_name").decode() for tensor in inputs]
    except ValueError:
        return None
    wanted = set(function.structured_input_signature[1])
    has_others = any(device.device_type != "CPU" for device in tf.config.experimental.list_logical_devices())
    if has_others or len(order) != len(wanted) or set(order) != wanted or len(found) != len(function.outputs):
        return None
    types, places, execute = [each.dtype for each in function.outputs], list(map(found.index, keys)), tf.raw_ops

    def call(feeds: Dict[str, Array]) -> Dict[str, Array]:
        try:
            results = execute.StatefulPartitionedCall(args=[*map(feeds.__getitem__, order), *captured], Tout=types, f=function)
        except tf.errors.InternalError:  # of TensorFlow 2.15, if an output is a `tf.shape`
            return indirect(feeds)
        return {key: results[place].numpy() for key, place in zip(keys, places)}

    return call


def _load_session(
    path: str, tags: List[str], signature: Signature, outputs: Sequence[TensorDescription], threads: Optional[int]
) -> Tuple[Any, Call]:
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads or 0, allow_soft_placement=True)
    config.gpu_options.allow_growth = True
    graph = tf.Graph()
    session = tf.compat.v1.Session(graph=graph, config=config)
    try:
        with graph.as_default():
            tf.compat.v1.saved_model.load(session, tags, path)
    except BaseException:
        session.close()
        raise
    places = {tensor.key: tensor.tensor for tensor in signature.inputs}
    fetches = {tensor.key: tensor.tensor for tensor in outputs}
    return session, lambda feeds: dict(session.run(fetches, {places[key]: array for key, array in feeds.items()}))


def runs_eagerly() -> bool:
    import tensorflow as tf

    return is_tensorflow_2() and bool(tf.executing_eagerly())


def row_errors() -> Tuple[Any, ...]:
    """Errors of TensorFlow for unsuitable values or too many of them, after which other rows may still succeed."""
    import tensorflow as tf

    errors = tf.errors
    return errors.InvalidArgumentError, errors.OutOfRangeError, errors.NotFoundError, errors.ResourceExhaustedError


def is_out_of_memory(error: BaseException) -> bool:
    """Test for the error of any framework; few have a class of their own for it."""
    said = f"{type(error).__name__} {error}".lower()
    return isinstance(error, MemoryError) or "resourceexhausted" in said or "out of memory" in said
