"""SavedModels: their signatures, read from the file alone, and their calls, by a signature's
function or in a session.

`python -m akdl.serving.saved_model FOLDER` loads every graph of an exported model. A clean process
has no state of the training, such as variables in memory, classes of the script, a GPU or a
cluster, so a model that it can load loads elsewhere.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from typing import Any, Callable, Sequence

import numpy as np

from akdl.process.preflight import RUN_MODULE
from akdl.serving.loaded_model import (
    LoadedModel,
    Refused,
    ServingError,
    Signature,
    SignatureError,
    TensorDescription,
)
from akdl.storage.model_archive import write_model
from akdl.storage.model_forms import ModelError, find_saved_model
from akdl.storage.model_place import put_model
from akdl.storage.training_folders import without_pattern
from akdl.tf_version import import_tensorflow, is_tensorflow_2
from akdl.wire import Serving
from akdl.wire.cells import Arrays

logger = logging.getLogger(__name__)

Call = Callable[[Arrays], Arrays]

# Seconds for TensorFlow's start, and for several gigabytes from a slow disk.
CHECK_TIMEOUT_S = 600.0
_LAST_LINES = 20
# Exit status of a process that has printed why the model cannot be loaded. Python itself uses 1 and
# 2.
_NOT_LOADED = 3
# tf.function(jit_compile=True) leaves this attribute in the graph.
_COMPILED = "_XlaMustCompile"
# TensorFlow stores its own operations as signatures with these names, which no user has made.
_INTERNAL = ("__saved_model_init_op", "__saved_model_train_op")


class SavedModel(LoadedModel):
    """The SavedModel in a folder, or in the only folder below it.

    `serving` names its graph by tags, and the signature. They are read from the file when the
    object is made, without loading the graph, so that a wrong name is found at once.
    """

    kind = "SavedModel"

    def __init__(self, folder: str, serving: Serving) -> None:
        self.folder = find_saved_model(folder)
        self._threads = serving.intra_op_parallelism or None
        graphs = read_signatures(self.folder)
        tag, key = serving.graph_def_tag or "serve", serving.signature_def_key or "serving_default"
        self.tags = tuple(sorted(part.strip() for part in tag.split(",")))
        if self.tags not in graphs:
            found = "; ".join(repr(",".join(tags)) for tags in graphs)
            raise SignatureError(
                f"the SavedModel in {self.folder} has no graph with the tag {tag!r} (graphDefTag);"
                f" it has: {found}"
            )
        signatures = graphs[self.tags]
        if key not in signatures:
            found = "; ".join(map(str, signatures.values())) or "none"
            raise SignatureError(
                f"the SavedModel in {self.folder} has no signature {key!r} (signatureDefKey) in its"
                f" graph {tag!r}; it has: {found}"
            )
        self.signature = signatures[key]
        self.model: Any = None
        self._call: Call | None = None

    def load(self, outputs: Sequence[str]) -> None:
        """Load the graph. Safe to call twice."""
        if self._call is not None:
            return
        used = [tensor for tensor in self.signature.outputs if tensor.key in outputs]
        load = self._load_function if runs_eagerly() else self._load_session
        try:
            with without_pattern(self.folder) as path:
                self._call = load(path, used)
        except Exception as error:  # TensorFlow raises many types here
            what = f"the SavedModel in {self.folder} cannot be loaded"
            raise ModelError(f"{what}: {type(error).__name__}: {error}") from error
        self._bfloat16 = [
            tensor.key for tensor in self.signature.inputs if tensor.dtype == "bfloat16"
        ]
        # bfloat16 is a type that TensorFlow adds to numpy, and that other code lacks. None keeps
        # the tensor's own type.
        self._dtypes = {
            tensor.key: np.float32 if tensor.dtype == "bfloat16" else None for tensor in used
        }

    def predict(self, columns: Arrays) -> Arrays:
        """Call the signature."""
        import tensorflow as tf

        # Another thread may close the model meanwhile, so the attribute is read once.
        call = self._call
        if call is None:
            raise ServingError("the model is closed")
        if self._bfloat16:
            columns = {
                **columns,
                **{key: columns[key].astype(tf.bfloat16.as_numpy_dtype) for key in self._bfloat16},
            }
        errors = tf.errors
        try:
            results = call(columns)
        # These errors can depend on the rows: a value that the graph refuses, a missing key of a
        # table, a batch that is too large. Others, such as a lost device, would fail with fewer
        # rows too.
        except (
            errors.InvalidArgumentError,
            errors.OutOfRangeError,
            errors.NotFoundError,
            errors.ResourceExhaustedError,
        ) as error:
            raise Refused(error, getattr(error, "message", error)) from error
        return {key: np.asarray(results[key], dtype) for key, dtype in self._dtypes.items()}

    def close(self) -> None:
        """Release the graph. Safe to call twice."""
        import tensorflow as tf

        if isinstance(self.model, tf.compat.v1.Session):
            self.model.close()
        self.model = self._call = None

    def _load_function(self, path: str, outputs: Sequence[TensorDescription]) -> Call:
        """Load a model with TensorFlow 2; the function alone would not keep the model's variables
        alive.
        """
        import tensorflow as tf

        if self._threads is not None:
            try:
                tf.config.threading.set_intra_op_parallelism_threads(self._threads)
            # TensorFlow makes its thread pool with its first operation, and refuses another size
            # from then on.
            except RuntimeError:
                logger.warning(
                    "intraOpParallelism %d has no effect: this process has already used TensorFlow",
                    self._threads,
                )
        self.model = tf.saved_model.load(path, tags=list(self.tags))
        self.device = "GPU" if tf.config.experimental.list_logical_devices("GPU") else "CPU"
        function = self.model.signatures[self.signature.key]
        constant = tf.constant
        keys = [tensor.key for tensor in outputs]

        def call(feeds: Arrays) -> Arrays:
            results = function(**{key: constant(array) for key, array in feeds.items()})
            return {key: results[key].numpy() for key in keys}

        return _direct_call(function, keys, call) or call

    def _load_session(self, path: str, outputs: Sequence[TensorDescription]) -> Call:
        """Load a model with TensorFlow 1, or where a script has turned eager execution off."""
        import tensorflow as tf

        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=self._threads or 0, allow_soft_placement=True
        )
        # Otherwise the session allocates all memory of the GPU, which other processes may share.
        config.gpu_options.allow_growth = True
        graph = tf.Graph()
        session = tf.compat.v1.Session(graph=graph, config=config)
        try:
            with graph.as_default():
                tf.compat.v1.saved_model.load(session, list(self.tags), path)
        except BaseException:
            session.close()
            raise
        # A session is fed by names of tensors in the graph, which the signature lists.
        places = {tensor.key: tensor.tensor for tensor in self.signature.inputs}
        fetches = {tensor.key: tensor.tensor for tensor in outputs}
        self.model = session
        found = {each.device_type for each in session.list_devices()}
        self.device = "GPU" if "GPU" in found else "CPU"
        return lambda feeds: dict(
            session.run(fetches, {places[key]: array for key, array in feeds.items()})
        )


def read_signatures(folder: str) -> dict[tuple[str, ...], dict[str, Signature]]:
    """Signatures of the SavedModel in `folder`: sorted tags of a graph to its signatures by key."""
    saved = _parse(find_saved_model(folder))
    return {
        tuple(sorted(graph.meta_info_def.tags)): {
            key: Signature(
                key,
                _tensors(definition.inputs),
                _tensors(definition.outputs),
                any(
                    _COMPILED in function.attr and function.attr[_COMPILED].b
                    for function in graph.graph_def.library.function
                ),
            )
            for key, definition in sorted(graph.signature_def.items())
            if key not in _INTERNAL
        }
        for graph in saved.meta_graphs
    }


def write_checked_model(
    folder: str,
    output_writer: Any,
    checkpoint: str | None = None,
    model_dir: str | None = None,
    as_is: bool = False,
) -> None:
    """Load the SavedModel in `folder` in a clean process, and send it as rows.

    With `as_is` the folder may have any content, which is sent unchanged. With `model_dir` the
    model is stored there, and a single row names it.
    """
    if not as_is:
        load_in_clean_process(folder)
    if model_dir is None:
        write_model(folder, output_writer, checkpoint, as_is)
    else:
        output_writer.write_batch(
            {"model_id": [0], "model_info": [put_model(folder, model_dir, checkpoint, as_is)]}
        )


def load_in_clean_process(folder: str, timeout_s: float = CHECK_TIMEOUT_S) -> None:
    """Call `load_every_graph` in a new process, whose crash or timeout is a ModelError as well.

    A model that only loads where it was trained would fail in the predictor, hours later. The
    process of the training itself proves nothing, because it has the script's classes and
    variables.
    """
    find_saved_model(folder)  # fails early, without a process
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    kept = {
        name: value
        for name, value in os.environ.items()
        # The clean process must not belong to the cluster of the training, nor find the variables
        # of akdl's own process.
        if name != "TF_CONFIG" and not name.startswith("AKDL_")
    }
    # The training script still holds the GPU's memory.
    own = {
        "PYTHONPATH": os.pathsep.join(path),
        "CUDA_VISIBLE_DEVICES": "-1",
        "PYTHONIOENCODING": "utf-8",
    }
    # RUN_MODULE instead of -m, which would import modules from the folder that a script changed to.
    command = [
        sys.executable,
        "-c",
        RUN_MODULE,
        "akdl.serving.saved_model",
        os.path.abspath(folder),
    ]
    try:
        ended = subprocess.run(
            command,
            env={**kept, **own},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        raise ModelError(
            f"the SavedModel in {folder} could not be loaded within {timeout_s:g} seconds"
        ) from None
    # The last line, since libraries may print to the same output while they are imported.
    if ended.returncode == _NOT_LOADED:
        raise ModelError(json.loads(ended.stdout.splitlines()[-1]))
    if ended.returncode:
        errors = ended.stderr.decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
        raise ModelError(
            "the SavedModel in {} could not be loaded: the loading process ended with status {},"
            " its last lines: {}".format(folder, ended.returncode, "\n".join(errors) or "none")
        )


def load_every_graph(folder: str) -> None:
    """Load the graphs of a SavedModel in this process; ModelError if it has no signature."""
    graphs = read_signatures(folder)
    served = {tags: signatures for tags, signatures in graphs.items() if signatures}
    if not served:
        found = "; ".join(repr(",".join(tags)) for tags in graphs)
        raise ModelError(
            f"the SavedModel in {folder} has no signature for prediction in its graphs {found}:"
            " export it with `signatures`"
        )
    for tags, signatures in served.items():
        key = next(iter(signatures))  # all signatures share the graph
        model = SavedModel(folder, Serving(graph_def_tag=",".join(tags), signature_def_key=key))
        model.load([tensor.key for tensor in model.signature.outputs])
        model.close()


def _parse(folder: str) -> Any:
    from google.protobuf import message, text_format
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel()
    binary = os.path.join(folder, "saved_model.pb")
    try:
        if os.path.isfile(binary):
            with open(binary, "rb") as file:
                saved.ParseFromString(file.read())
        else:
            with open(os.path.join(folder, "saved_model.pbtxt"), encoding="utf-8") as text:
                text_format.Parse(text.read(), saved)
    except (message.DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise ModelError(f"the SavedModel in {folder} is damaged: {error}") from error
    if not saved.meta_graphs:
        raise ModelError(f"the SavedModel in {folder} is damaged: there is no graph in it")
    return saved


def _tensors(infos: Any) -> tuple[TensorDescription, ...]:
    import tensorflow as tf

    found: list[TensorDescription] = []
    for key, info in sorted(infos.items()):
        shape = (
            None
            if info.tensor_shape.unknown_rank
            else tuple(dim.size for dim in info.tensor_shape.dim)
        )
        found.append(TensorDescription(key, tf.as_dtype(info.dtype).name, shape, info.name))
    return tuple(found)


def _direct_call(function: Any, keys: list[str], indirect: Call) -> Call | None:
    """Make a call without TensorFlow's checks of arguments; None where the usual call has to stay.

    Binding names and checking types takes 0.3 ms, three quarters of a call for one row. The usual
    call stays on a GPU, and where TensorFlow has stored no names from which to read the order of
    the inputs.
    """
    import tensorflow as tf

    # The last inputs of the function are its variables. Outputs are in the order of their sorted
    # names.
    captured, found = list(function.captured_inputs), sorted(function.structured_outputs)
    inputs = function.inputs[: len(function.inputs) - len(captured)]
    try:
        # The function takes its inputs in an order of its own, which the names of its placeholders
        # show.
        order = [tensor.op.get_attr("_user_specified_name").decode() for tensor in inputs]
    except ValueError:
        return None
    wanted = set(function.structured_input_signature[1])
    has_others = any(
        device.device_type != "CPU" for device in tf.config.experimental.list_logical_devices()
    )
    if (
        has_others
        or len(order) != len(wanted)
        or set(order) != wanted
        or len(found) != len(function.outputs)
    ):
        return None
    types = [each.dtype for each in function.outputs]
    places = list(map(found.index, keys))
    execute = tf.raw_ops

    def call(feeds: Arrays) -> Arrays:
        try:
            results = execute.StatefulPartitionedCall(
                args=[*map(feeds.__getitem__, order), *captured], Tout=types, f=function
            )
        # TensorFlow 2.15 raises this where an output is a `tf.shape`. The usual call can predict
        # such a batch.
        except tf.errors.InternalError:
            return indirect(feeds)
        return {key: results[place].numpy() for key, place in zip(keys, places)}

    return call


def runs_eagerly() -> bool:
    """Test for TensorFlow 2 with its own way of execution; a session runs the graph otherwise."""
    import tensorflow as tf

    return is_tensorflow_2() and bool(tf.executing_eagerly())


if __name__ == "__main__":
    import_tensorflow()
    try:
        load_every_graph(sys.argv[1])
    except (ModelError, ServingError) as error:
        print(json.dumps(str(error)))
        sys.exit(_NOT_LOADED)
