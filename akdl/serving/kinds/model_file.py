"""Models that are one file, or a folder of MLflow with the file `MLmodel`: the ending of the name
chooses the framework.

For each kind, a function opens a file and returns its inputs, its outputs and its call. It imports
the framework, so a process has only the one of its model. A further kind is one more function in
`KINDS`.
"""

import importlib.util
import os
import sys
import threading
import warnings
import zipfile
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from akdl.process.preflight import installed
from akdl.serving.input_cells import encoded
from akdl.serving.kinds.functions import argument, described, mapped
from akdl.serving.loaded_model import (
    LoadedModel,
    Refused,
    ServingError,
    Signature,
    TensorDescription,
)
from akdl.serving.number_cells import NUMBERS
from akdl.storage.model_forms import MLFLOW, ModelError, kind_of
from akdl.tf_version import choose_keras_backend
from akdl.user_code.module import CODE_FOLDERS, forget_modules
from akdl.wire import Serving
from akdl.wire.cells import Array
from akdl.wire.column_type import INTEGERS, ColumnType, type_of

Named = Mapping[str, Any]
"""Names of inputs or outputs, and their arrays; or objects with `dtype` and `shape`, where a size
that is not an int varies.
"""

Call = Callable[[Dict[str, Array], Sequence[str]], Named]
"""Takes the inputs and the names of outputs, and returns at least these outputs."""

Opened = Tuple[Named, Named, Call, bool, str]
"""Inputs, outputs, the call, whether XLA compiles it for each size of a batch, and the device."""

_UNPICKLED = ".pt2", MLFLOW
# Types of numpy by their names in ONNX and MLflow.
_DTYPES = {
    "float": "float32",
    "double": "float64",
    "integer": "int32",
    "long": "int64",
    "boolean": "bool",
    "binary": "string",
    "object": "string",
    "str": "string",
}


class ModelFile(LoadedModel):
    """The model in a file, which is opened when the object is made: most files have no signature
    that can be read alone.
    """

    def __init__(self, path: str, serving: Serving) -> None:
        kind, self.name = kind_of(path), f"the model {os.path.basename(path)}"
        missing = missing_trust(kind, serving)
        if missing:
            raise ModelError(f"{path}: {missing}")
        missing = missing_package(kind)
        if missing:
            raise ServingError(f"{path}: {missing}")
        try:
            _, self.kind, open_file = KINDS[kind]
            inputs, outputs, self._call, is_compiled, self.device = open_file(path, serving)
        except Exception as error:
            # Keras advises to set its own argument where a file contains code. Here the parameter
            # is `trusted`.
            reason = str(error).replace("safe_mode=False", "trusted=True")
            raise ModelError(
                f"{path} cannot be loaded: {type(error).__name__}: {reason}"
            ) from error
        if kind in (".keras", MLFLOW):
            # Keras and MLflow do not promise that models may be called from several threads.
            self.turn = threading.Lock()
        self.signature = Signature("", _described(inputs), _described(outputs), is_compiled)

    def load(self, outputs: Sequence[str]) -> None:
        """Choose the outputs."""
        self._outputs = outputs

    def predict(self, columns: Dict[str, Array]) -> Dict[str, Array]:
        """Call the model; Refused for any error, because frameworks don't say which errors depend
        on the rows.
        """
        try:
            results = self._call(columns, self._outputs)
            arrays = {key: np.asarray(results[key]) for key in self._outputs}
            return {
                key: encoded(array) if array.dtype.kind in "OU" else array
                for key, array in arrays.items()
            }
        except Exception as error:
            raise Refused(error, f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Release the model."""
        del self._call


def missing_trust(kind: str, serving: Serving) -> str:
    """Sentence about a kind of file that is loaded only if it is trusted; "" for others."""
    if kind not in _UNPICKLED or serving.trusted:
        return ""
    return (
        f"{KINDS[kind][1]} unpickles parts of it, which may run code: if you trust its author,"
        " set trusted=True; or save the model as ONNX"
    )


def missing_package(kind: str) -> str:
    """Sentence about the package that this Python lacks for a kind of file; "" if it is there, or
    not needed.
    """
    package = KINDS[kind][0] if kind in KINDS else "numpy"
    if importlib.util.find_spec(package):
        return ""
    return (
        f"a model of kind {kind} needs the package {package}, which the Python of {sys.executable}"
        f" lacks: install the extra {package} of akdl there, or choose another environment with"
        " pythonEnv"
    )


def _keras(path: str, serving: Serving) -> Opened:
    """Load a model without its optimizer. Code in it, such as that of a Lambda layer, runs only if
    it is trusted.

    Keras 2 reads a file of another form, or with another case of its ending, as HDF5, and has no
    safe mode there.
    """
    if not (serving.trusted or (path.endswith(".keras") and zipfile.is_zipfile(path))):
        raise ValueError("expected a zip file: other forms need safe_mode=False")
    choose_keras_backend(installed("keras"), os.environ)
    import keras

    model = keras.models.load_model(path, compile=False, safe_mode=not serving.trusted)
    keys = [tensor.name for tensor in model.inputs]
    names = getattr(model, "output_names", None) or _numbered(model.outputs)
    # A Sequential has no `input` in Keras 3. The structure of `input` shows whether the model takes
    # a dict.
    inputs = getattr(model, "input", model.inputs)

    def call(columns: Dict[str, Array], wanted: Sequence[str]) -> Named:
        feeds = columns if isinstance(inputs, dict) else [columns[key] for key in keys]
        return _named(model.predict_on_batch(feeds), names)

    outputs = _named(getattr(model, "output", model.outputs), names)
    # Keras 3 compiles with JAX, and with TensorFlow if there is a GPU.
    is_compiled = bool(getattr(model, "jit_compile", False))
    return _named(inputs, keys), outputs, call, is_compiled, _device_of(keras.backend.backend())


def _onnx(path: str, serving: Serving) -> Opened:
    """Open a session, on a GPU where onnxruntime has one."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = serving.intra_op_parallelism
    # Its threads would wait for the next batch in a loop, on cores that Flink needs to make it.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    available = {"CUDAExecutionProvider", "CPUExecutionProvider"}.intersection(
        onnxruntime.get_available_providers()
    )
    # onnxruntime prefers providers in the order of this list, and CUDA comes first in reverse
    # order.
    session = onnxruntime.InferenceSession(path, options, sorted(available, reverse=True))

    def call(columns: Dict[str, Array], wanted: Sequence[str]) -> Named:
        # onnxruntime takes strings as str.
        feeds = {
            key: mapped(bytes.decode, array) if array.dtype == object else array
            for key, array in columns.items()
        }
        return dict(zip(wanted, session.run(wanted, feeds)))

    def tensors(values: Named) -> Named:
        # A type is "tensor(float)", or that of a map, which fits no column.
        dtypes = {key: each.type[7:-1] for key, each in values.items()}
        return {
            # onnxruntime returns no sizes for an unknown shape too, so this may be any.
            key: TensorDescription("", _DTYPES.get(dtype, dtype), values[key].shape or None)
            for key, dtype in dtypes.items()
        }

    inputs, outputs = (
        {each.name: each for each in found}
        for found in (session.get_inputs(), session.get_outputs())
    )
    device = "GPU" if "CUDA" in session.get_providers()[0] else "CPU"
    return tensors(inputs), tensors(outputs), call, False, device


def _torch(path: str, serving: Serving) -> Opened:
    """Open a file of torch.export.save, or of torch.jit.save, which has TorchScript and no pickles
    of Python.

    TorchScript has the names of inputs alone, so the columns say the rest.
    """
    import torch

    torch.set_num_threads(serving.intra_op_parallelism or torch.get_num_threads())
    device = "cuda" if _device_of("torch") == "GPU" else "cpu"
    inputs: Named
    outputs: Named
    if path.lower().endswith(".pt2"):
        program = torch.export.load(path)
        if device == "cuda":
            from torch.export.passes import move_to_device_pass

            program = move_to_device_pass(program, device)
        found = {node.name: node.meta.get("val") for node in program.graph.nodes}
        results, spec = program.graph_signature.user_outputs, program.call_spec.out_spec
        # An OrderedDict is a dict too, and a single output has no type.
        names = spec.context if issubclass(spec.type or tuple, dict) else _numbered(results)
        # Among inputs and outputs may be constants in place of names, such as None.
        order = program.graph_signature.user_inputs
        inputs = {name: found[name] for name in order if name in found}
        module = program.module()
        outputs = {name: found[each] for name, each in zip(names, results) if each in found}
        in_spec = program.call_spec.in_spec
    else:
        with warnings.catch_warnings():
            # torch.jit.load warns that torch.export has replaced TorchScript, which a user of an
            # existing file cannot change.
            warnings.simplefilter("ignore")
            module = torch.jit.load(path, device).eval()
        fed = _fed(serving)
        inputs = {}
        # The first argument is the module itself.
        for argument in module.forward.schema.arguments[1:]:
            # The only input takes one column of any name, or a number of each of several columns.
            own = [fed[argument.name]] if argument.name in fed else list(fed.values())
            shape = None if any(each.is_array for each in own) else (-1, len(own))[: len(own)]
            dtype = "int64" if own and all(each.kind in INTEGERS for each in own) else "float32"
            inputs[argument.name] = TensorDescription("", dtype, shape or None)
        outputs = _declared_outputs(serving)
        names, order = list(outputs), list(inputs)
        in_spec = torch.utils._pytree.tree_structure((tuple(order), {}))

    def call(columns: Dict[str, Array], wanted: Sequence[str]) -> Named:
        # The model may take its inputs by name.
        given, named = torch.utils._pytree.tree_unflatten(
            [
                torch.tensor(
                    columns[key],
                    dtype=getattr(torch, str(inputs[key].dtype).rpartition(".")[2]),
                    device=device,
                )
                if key in inputs
                else key
                for key in order
            ],
            in_spec,
        )
        with torch.inference_mode():
            results = _named(module(*given, **named), names)
        # numpy has no bfloat16.
        return {
            key: (each.float() if each.dtype == torch.bfloat16 else each).cpu()
            for key, each in results.items()
            if key in wanted
        }

    return inputs, outputs, call, False, _device_of("torch")


def _mlflow(path: str, serving: Serving) -> Opened:
    """Load a model of any flavor. It takes a data frame, or arrays if its signature has tensors.

    Numbers get the types of the signature, because MLflow itself refuses to convert a DOUBLE to
    float or a BIGINT to double. Other inputs, and all inputs without a signature, have the types of
    their columns, as for a function.
    """
    import mlflow.pyfunc
    import pandas

    forget_modules()
    others = set(sys.path)
    model = mlflow.pyfunc.load_model(os.path.dirname(path))
    # MLflow puts the folder with the code of a model in front of the others.
    CODE_FOLDERS.update(set(sys.path) - others)
    schema, fed = model.metadata.get_input_schema(), _fed(serving)
    has_tensors = bool(schema and schema.is_tensor_spec())
    own = {each.key: each for each in described(fed)}

    def tensors(schema: mlflow.types.Schema, own: Named) -> Named:
        # The only tensor needs no name. Columns without names may have any number of them.
        found = {}
        for each in schema.inputs:
            key, dtype = each.name or "inputs", getattr(each.type, "name", str(each.type))
            tensor = TensorDescription("", _DTYPES.get(dtype, dtype), getattr(each, "shape", (-1,)))
            if each.required or key in own:
                found[key] = tensor if tensor.dtype in NUMBERS else own.get(key, tensor)
        return found

    inputs = tensors(schema, own) if has_tensors or (schema and schema.has_input_names()) else own
    outputs, results = _declared_outputs(serving), model.metadata.get_output_schema()
    if results and results.has_input_names():
        outputs = tensors(results, outputs)

    def call(columns: Dict[str, Array], wanted: Sequence[str]) -> Named:
        feeds = {}
        for key, array in columns.items():
            if inputs[key] is own.get(key):
                array = argument(array, fed[key].kind)
            elif array.dtype == object:
                array = mapped(bytes.decode, array)
            feeds[key] = array
        given: object = feeds
        if not has_tensors:
            # A cell of a data frame may be an array, but a column has one dimension.
            given = pandas.DataFrame(
                {key: list(array) if array.ndim > 1 else array for key, array in feeds.items()}
            )
        elif not schema.has_input_names():
            (given,) = feeds.values()
        results = model.predict(given)
        if isinstance(results, dict):
            return results
        if len(outputs) == 1 and not isinstance(results, pandas.DataFrame):
            return dict.fromkeys(outputs, results)
        frame = pandas.DataFrame(results)
        if not frame.columns.isin(list(outputs)).any():
            frame.columns = pandas.Index(list(outputs))
        return {str(name): column for name, column in frame.items()}

    return inputs, outputs, call, False, ""


def _device_of(framework: str) -> str:
    """Return the device on which a framework puts a model."""
    if framework == "torch":
        import torch

        return "GPU" if torch.cuda.is_available() else "CPU"
    if framework == "jax":
        import jax

        return str(jax.default_backend()).upper()
    import tensorflow as tf

    return "GPU" if tf.config.list_logical_devices("GPU") else "CPU"


def _fed(serving: Serving) -> Dict[str, ColumnType]:
    """Types of the columns by the inputs that they feed."""
    types = {
        each.name: type_of(each)
        for each in serving.input_columns
        if each.name != serving.model_key_col
    }
    return dict(zip(serving.input_signature_defs or types, types.values()))


def _declared_outputs(serving: Serving) -> Named:
    """Outputs of a model that does not describe them: one for each column, or a single one."""
    columns = list(serving.output_columns)
    names = list(serving.output_signature_defs) or [column.name for column in columns]
    declared = described(dict(zip(names, map(type_of, columns))))
    return {each.key: each for each in declared} or {
        "output_0": TensorDescription("", "float32", None)
    }


def _named(values: object, names: Sequence[str]) -> Named:
    if isinstance(values, dict):
        return values
    return dict(zip(names, values if isinstance(values, (list, tuple)) else [values]))


def _numbered(values: Sequence[object]) -> List[str]:
    """Names for outputs that have no names, as in SavedModels."""
    return [f"output_{place}" for place in range(len(values))]


def _described(tensors: Named) -> Tuple[TensorDescription, ...]:
    found = []
    for key, each in tensors.items():
        # PyTorch calls its types "torch.float32", and numpy "float32".
        dtype = str(getattr(each.dtype, "name", each.dtype)).rpartition(".")[2]
        shape = each.shape and tuple(size if isinstance(size, int) else -1 for size in each.shape)
        found.append(TensorDescription(key, dtype, shape, key))
    return tuple(found)


KINDS: Mapping[str, Tuple[str, str, Callable[[str, Serving], Opened]]] = {
    ".keras": ("keras", "Keras", _keras),
    ".onnx": ("onnxruntime", "ONNX", _onnx),
    ".pt2": ("torch", "PyTorch", _torch),
    ".pt": ("torch", "PyTorch", _torch),
    MLFLOW: ("mlflow", "MLflow", _mlflow),
}
"""By the ending: the package, which is also the name of akdl's extra for it, the name of the kind,
and the function.
"""
