"""`python -m akdl.serving.check FOLDER`: load an exported model once in a clean process, and print its description as JSON.

A clean process has no state of the training: variables in memory, classes of the script, GPU, cluster. A model that loads there
loads elsewhere. For a missing or broken model the object has the reason as `error`, and the exit status is 1.
"""

import json
import os
import subprocess
import sys
from typing import Any, Dict, List, Optional, Sequence

from akdl.process.preflight import RUN_MODULE
from akdl.serving.prediction_errors import ServingError
from akdl.serving.runners import Runner
from akdl.serving.signature import Signature, TensorDescription, read_signatures
from akdl.serving.tensorflow_import import import_tensorflow
from akdl.storage.model_archive import ModelError, find_saved_model, write_model
from akdl.storage.model_place import put_model

TIMEOUT_S = 600.0  # for TensorFlow's start and several GB from a slow disk
_LAST_LINES = 20


def describe(folder: str) -> Dict[str, Any]:
    """Load every graph of a SavedModel in this process; describe TensorFlow, tags, signatures, inputs and outputs."""
    import tensorflow as tf

    model = find_saved_model(folder)
    graphs = read_signatures(model)
    served = {tags: signatures for tags, signatures in graphs.items() if signatures}
    if not served:
        found = "; ".join(repr(",".join(tags)) for tags in graphs)
        raise ModelError(
            f"the SavedModel in {model} has no signature for prediction in its graphs {found}: export it with `signatures`"
        )
    for tags, signatures in served.items():
        signature = next(iter(signatures.values()))  # all signatures share the graph
        Runner(model, tags, signature, signature.outputs).close()
    return {
        "tensorflow_version": tf.__version__,
        "graphs": [
            {"tags": list(tags), "signatures": {key: _as_json(signature) for key, signature in signatures.items()}}
            for tags, signatures in graphs.items()
        ],
    }


def describe_in_clean_process(folder: str, timeout_s: float = TIMEOUT_S) -> Dict[str, Any]:
    """Result of `describe` from a new process, whose crash or timeout is a ModelError as well."""
    find_saved_model(folder)  # fails early, without a process
    command = [sys.executable, "-c", RUN_MODULE, "akdl.serving.check", os.path.abspath(folder)]
    try:
        ended = subprocess.run(
            command, env=_clean_environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise ModelError(f"the SavedModel in {folder} could not be loaded within {timeout_s:g} seconds") from None
    lines = ended.stdout.decode("utf-8", "replace").splitlines()
    try:
        result = json.loads(lines[-1]) if lines else {}
    except ValueError:
        result = {}
    if ended.returncode == 0 and "graphs" in result:
        described: Dict[str, Any] = result
        return described
    if "error" in result:
        raise ModelError(result["error"])
    errors = ended.stderr.decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
    raise ModelError(
        "the SavedModel in {} could not be loaded: the loading process ended with status {}, its last lines: {}".format(
            folder, ended.returncode, "\n".join(errors) or "none"
        )
    )


def write_checked_model(
    folder: str,
    output_writer: Any,
    timeout_s: float = TIMEOUT_S,
    checkpoint: Optional[str] = None,
    model_dir: Optional[str] = None,
) -> None:
    """Check the SavedModel in `folder` in a clean process and send it as rows, with the result in the manifest.

    With `model_dir` the model is stored there, and a single row names it.
    """
    details = describe_in_clean_process(folder, timeout_s)
    if model_dir is None:
        write_model(folder, output_writer, details, checkpoint)
    else:
        row = put_model(folder, model_dir, details, checkpoint)
        output_writer.write_batch({"model_id": [0], "model_info": [row]})


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m akdl.serving.check FOLDER\n")
        return 2
    import_tensorflow()
    try:
        result = describe(arguments[0])
    except (ModelError, ServingError) as error:
        result = {"error": str(error)}
    print(json.dumps(result, sort_keys=True))
    return 1 if "error" in result else 0


def _as_json(signature: Signature) -> Dict[str, Any]:
    def tensors(found: Sequence[TensorDescription]) -> Dict[str, Any]:
        return {tensor.key: {"dtype": tensor.dtype, "shape": tensor.shape and list(tensor.shape)} for tensor in found}

    return {"inputs": tensors(signature.inputs), "outputs": tensors(signature.outputs)}


def _clean_environment() -> Dict[str, str]:
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path: List[str] = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    kept = {name: value for name, value in os.environ.items() if name != "TF_CONFIG" and not name.startswith("AKDL_")}
    # The training script still holds the GPU's memory.
    return {**kept, "PYTHONPATH": os.pathsep.join(path), "CUDA_VISIBLE_DEVICES": "-1", "PYTHONIOENCODING": "utf-8"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
