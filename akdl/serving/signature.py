"""Tags, signatures, inputs and outputs of a SavedModel, read from its file without loading the model."""

import os
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from akdl.serving.prediction_errors import SignatureError
from akdl.storage.model_archive import ModelError, find_saved_model

_INTERNAL = ("__saved_model_init_op", "__saved_model_train_op")


@dataclass(frozen=True)
class TensorDescription:
    """An input or output of a signature; `tensor` is empty for sparse and ragged ones, and sizes of -1 are variable."""

    key: str
    dtype: str
    shape: Optional[Tuple[int, ...]]
    tensor: str = ""

    def __str__(self) -> str:
        return f"{self.key!r} {self.dtype} {shape_text(self.shape)}"


@dataclass(frozen=True)
class Signature:
    key: str
    inputs: Tuple[TensorDescription, ...]
    outputs: Tuple[TensorDescription, ...]
    is_compiled: bool = False  # by XLA, for each shape of the inputs

    def __str__(self) -> str:
        return f"{self.key!r} (inputs: {tensors_text(self.inputs)}; outputs: {tensors_text(self.outputs)})"


def shape_text(shape: Optional[Iterable[int]]) -> str:
    return "[any shape]" if shape is None else str(list(shape))


def tensors_text(tensors: Iterable[TensorDescription]) -> str:
    return ", ".join(map(str, tensors)) or "none"


def read_signatures(folder: str) -> Dict[Tuple[str, ...], Dict[str, Signature]]:
    """Signatures of the SavedModel in `folder`: sorted tags of a graph to its signatures by key."""
    saved = _parse(find_saved_model(folder))
    return {
        tuple(sorted(graph.meta_info_def.tags)): {
            key: Signature(key, _tensors(definition.inputs), _tensors(definition.outputs), _has_compiled(graph.graph_def))
            for key, definition in sorted(graph.signature_def.items())
            if key not in _INTERNAL
        }
        for graph in saved.meta_graphs
    }


def resolve(folder: str, tag: str, key: str) -> Tuple[Tuple[str, ...], Signature]:
    graphs = read_signatures(folder)
    tags = tuple(sorted(part.strip() for part in tag.split(",")))
    if tags not in graphs:
        found = "; ".join(repr(",".join(tags)) for tags in graphs)
        raise SignatureError(f"the SavedModel in {folder} has no graph with the tag {tag!r} (graphDefTag); it has: {found}")
    signatures = graphs[tags]
    if key not in signatures:
        found = "; ".join(map(str, signatures.values())) or "none"
        raise SignatureError(
            f"the SavedModel in {folder} has no signature {key!r} (signatureDefKey) in its graph {tag!r}; it has: {found}"
        )
    return tags, signatures[key]


def find_tensor(tensors: Sequence[TensorDescription], key: str, what: str, signature: Signature) -> TensorDescription:
    for tensor in tensors:
        if tensor.key == key:
            return tensor
    renamed = ""
    if what == "input" and "inputs" in {tensor.key for tensor in tensors}:
        renamed = ". Keras 3 loses the names of inputs in tf.saved_model.save: write model.export(task_config.saved_model_dir)"
    raise SignatureError(f"the model has no {what} {key!r}; its signature is {signature}{renamed}")


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


def _has_compiled(graph: Any) -> bool:
    name = "_XlaMustCompile"
    return any(name in function.attr and function.attr[name].b for function in graph.library.function)


def _tensors(infos: Any) -> Tuple[TensorDescription, ...]:
    import tensorflow as tf

    found: List[TensorDescription] = []
    for key, info in sorted(infos.items()):
        shape = None if info.tensor_shape.unknown_rank else tuple(dim.size for dim in info.tensor_shape.dim)
        found.append(TensorDescription(key, tf.as_dtype(info.dtype).name, shape, info.name))
    return tuple(found)
